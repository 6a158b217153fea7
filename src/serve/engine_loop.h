// The life of the scheduler's rank: takes requests in, makes steps, samples, hands tokens out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "serve/admission.h"
#include "serve/engine_state.h"
#include "serve/sampler.h"
#include "serve/scheduler.h"
#include "serve/serving_rank.h"
#include "serve/step_pace.h"

namespace plait {

class EngineLoop {
 public:
  // All must outlive the loop.
  EngineLoop(const ServingOptions& options, const ServingPlan& plan, ServingRank& rank,
             EngineState& state);

  // Steps of the usual shapes on made-up tokens: touches all memory, measures the pace.
  void warm_up();
  // Until EngineState::stop(); then the other ranks have been told. Errors: those of a lost rank.
  void run();
  // Ends every request with kError. After an error of run().
  void fail_requests(const Error& error);

 private:
  void accept(EngineState::Incoming& incoming);
  void expire();
  void step();
  void deliver(Sequence& sequence, GeneratedToken token);
  void finish(uint64_t id, FinishReason reason);
  bool is_plain_greedy(const Sequence& sequence) const;
  FinishReason finish_after(const Sequence& sequence, int32_t token) const;
  GeneratedToken sample(Sequence& sequence, int64_t index);
  void publish();
  bool is_eos(int32_t token) const;

  const ServingOptions& options_;
  const ServingPlan& plan_;
  ServingRank& rank_;
  EngineState& state_;
  Scheduler scheduler_;
  Sampler sampler_;
  AdmissionControl admission_;
  double heartbeat_s_;
  StepPace pace_;
  StepMessage message_;
  EngineState::Incoming incoming_;
  EngineStats totals_;
  std::vector<ScheduledTokens> items_;
  std::vector<int32_t> best_;
  std::vector<float> logits_;
  double told_s_ = 0;  // when the other ranks last heard something
};

}  // namespace plait
