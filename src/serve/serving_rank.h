// One rank of a served model: its weights, its part of the cache, and the loop that does what step
// messages say.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "model/decoder.h"
#include "parallel/parallel_context.h"
#include "serve/options.h"
#include "serve/step_channel.h"
#include "serve/step_message.h"

namespace plait {

class ServingRank {
 public:
  // Loads this rank's weights. Collective over the world. Rank 0 logs the progress.
  ServingRank(const ServedModel& model, const ServingPlan& plan, World& world);

  // Rank 0: sends the message to the others and does the step with them.
  void lead_step(const StepMessage& message);
  // Rank 0: sends a message that is no step.
  void tell(const StepMessage& message);
  // The other ranks: does steps until the message kStop. `hook` may be empty.
  void follow(const std::function<void(int rank)>& hook);

  Decoder& decoder() { return *decoder_; }
  double load_s() const { return load_s_; }

 private:
  void load(const ServedModel& model, const ServingPlan& plan);

  ParallelContext context_;
  ModelConfig config_;
  StepChannel channel_;
  StepDecoder step_decoder_;
  std::unique_ptr<Decoder> decoder_;
  double load_s_ = 0;
};

}  // namespace plait
