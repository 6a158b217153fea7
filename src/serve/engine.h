// The engine behind the HTTP side and the command line: one served model on the ranks of a layout.
#pragma once

#include <memory>
#include <vector>

#include "serve/options.h"
#include "serve/request.h"
#include "serve/served_model.h"

namespace plait {

class ServingEngine final : public GenerationService {
 public:
  // Returns at once; threads of its own load the model and then serve: one for each of the layout's
  // dp replicas, which share nothing but the file, with its other ranks (threads too). Under an MPI
  // launcher every rank of the world but 0 is a process that calls run_serving_worker; replica r
  // has the ranks [r, r + 1) * tp * pp. `plan` is plan_serving's.
  ServingEngine(ServedModel model, const ServingOptions& options, const ServingPlan& plan);
  // Ends open requests with an error and joins the ranks.
  ~ServingEngine() override;
  ServingEngine(const ServingEngine&) = delete;
  ServingEngine& operator=(const ServingEngine&) = delete;

  // Blocks while the model loads and warms up. Errors: what stood in the way, with the code of the
  // rank that failed first.
  void wait_until_ready();

  // To the replica with the fewest requests.
  Submission submit(GenerationRequest request, UpdateSink sink) override;
  void cancel(uint64_t id) override;
  void drain() override;
  // Sums over the replicas; `ready` when all are, the failure of any.
  EngineStats stats() const override;
  const EngineLimits& limits() const override { return plan_.limits; }

 private:
  class Replica;

  ServedModel model_;
  ServingOptions options_;
  ServingPlan plan_;
  std::vector<std::unique_ptr<Replica>> replicas_;
};

// What this host offers the ranks of `layout`.
HostLimits host_limits(const Layout& layout);

// The part of a process that mpirun started as another rank than 0: serves until rank 0 ends.
void run_serving_worker(const ServedModel& model, const ServingOptions& options,
                        const ServingPlan& plan);

}  // namespace plait
