#include "serve/engine.h"

#include <pthread.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/rank_runner.h"
#include "serve/engine_loop.h"
#include "serve/engine_state.h"
#include "serve/serving_rank.h"

namespace plait {
namespace {

// Beside the ranks, the HTTP side wants its share of the cores.
constexpr double kSpinS = 5e-5;
// After the grace, the server ends by itself; the transport does it where that fails.
constexpr double kLeaveMarginS = 5;

// A seed for requests that bring none: differs from start to start.
uint64_t start_seed() {
  return static_cast<uint64_t>(now_s() * 1e9);
}

// Nothing is accepted any more; what the engine's thread has not taken yet ends with the error.
void refuse_all(EngineState& state, const Error& error) {
  for (const std::unique_ptr<Sequence>& sequence : state.fail(error)) {
    RequestUpdate update;
    update.finish = FinishReason::kError;
    update.error = error.message();
    sequence->sink(std::move(update));
    state.request_finished();
  }
}

void run_serving_ranks(const ServedModel& model, const ServingOptions& options,
                       const ServingPlan& plan, EngineState* state) {
  RankRunnerOptions runner;
  runner.ranks = plan.layout.world_size();
  runner.device = options.device;
  runner.threads_per_rank = options.threads_per_rank;
  runner.comm.deadline_s = options.stall_limit_s;
  runner.spin_s = kSpinS;
  runner.leave_after_s = options.failure_grace_s + kLeaveMarginS;
  if (state != nullptr) {
    runner.on_lost_rank = [state](const std::string& what) {
      refuse_all(*state, Error(ErrorCode::kComm, what));
    };
  }
  run_ranks(runner, [&](World& world) {
    ServingRank rank(model, plan, world);
    if (world.rank() != 0) {
      rank.follow(options.step_hook);
      return;
    }
    CHECK(state != nullptr);
    log_info(0, "loaded in {:.1f} s", rank.load_s());
    EngineLoop loop(options, plan, rank, *state);
    try {
      loop.warm_up();
      state->set_ready();
      loop.run();
    } catch (const Error& error) {
      loop.fail_requests(error);
      throw;
    }
  });
}

void add_stats(const EngineStats& part, EngineStats& total) {
  constexpr int64_t EngineStats::*kSums[] = {
      &EngineStats::running,          &EngineStats::waiting,     &EngineStats::blocks_total,
      &EngineStats::blocks_free,      &EngineStats::prefix_hits, &EngineStats::prefix_queries,
      &EngineStats::preemptions,      &EngineStats::rejections,  &EngineStats::prompt_tokens,
      &EngineStats::generated_tokens, &EngineStats::steps,       &EngineStats::max_concurrency};
  for (int64_t EngineStats::*field : kSums) {
    total.*field += part.*field;
  }
  total.step_s += part.step_s;
  total.kernel_s += part.kernel_s;
  total.step_age_s = std::max(total.step_age_s, part.step_age_s);
  total.ready = total.ready && part.ready;
  total.draining = total.draining || part.draining;
  total.failure = total.failure.empty() ? part.failure : total.failure;
}

}  // namespace

HostLimits host_limits(const Layout& layout) {
  return {.free_bytes = available_memory_bytes(),
          .local_ranks = under_mpi_launcher() ? launcher_local_size() : layout.world_size()};
}

// One copy of the model with its scheduler.
class ServingEngine::Replica {
 public:
  Replica(const ServingEngine& engine, const ServingOptions& options, const ServingPlan& plan)
      : engine_(engine),
        options_(options),
        plan_(plan),
        state_({.max_num_seqs = options.max_num_seqs,
                .max_num_queued = options.max_num_queued,
                .max_model_len = plan.limits.max_model_len,
                .seed = start_seed()}) {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "plait-engine");
      serve();
    });
  }
  ~Replica() {
    state_.stop();
    thread_.join();
  }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  EngineState& state() { return state_; }
  const EngineState& state() const { return state_; }

 private:
  void serve() {
    try {
      run_serving_ranks(engine_.model_, options_, plan_, &state_);
    } catch (const Error& error) {
      log_error(-1, "the engine has stopped: {}", error.message());
      refuse_all(state_, error);
    }
  }

  const ServingEngine& engine_;
  ServingOptions options_;
  ServingPlan plan_;
  EngineState state_;
  std::thread thread_;
};

ServingEngine::ServingEngine(ServedModel model, const ServingOptions& options,
                             const ServingPlan& plan)
    : model_(std::move(model)), options_(options), plan_(plan) {
  const int dp = plan.layout.dp;
  if (dp > 1 && under_mpi_launcher()) {
    throw_error(ErrorCode::kNotImplemented,
                "layout {}: replicas under an MPI launcher; start one server for each, or one "
                "process for all",
                to_string(plan.layout));
  }
  ServingOptions of_replica = options;
  ServingPlan replica_plan = plan;
  replica_plan.layout.dp = 1;
  of_replica.layout = replica_plan.layout;
  if (options.threads_per_rank == 0 && dp > 1) {
    of_replica.threads_per_rank = std::max(1, available_cores() / plan.layout.world_size());
  }
  for (int i = 0; i < dp; ++i) {
    replicas_.push_back(std::make_unique<Replica>(*this, of_replica, replica_plan));
  }
}

ServingEngine::~ServingEngine() = default;

void ServingEngine::wait_until_ready() {
  for (const std::unique_ptr<Replica>& replica : replicas_) {
    if (const std::optional<Error> failure = replica->state().wait_until_ready()) {
      throw *failure;
    }
  }
}

// Ids of clients: the replica's own, then which replica.
GenerationService::Submission ServingEngine::submit(GenerationRequest request, UpdateSink sink) {
  // An id without a row in the embedding would be read from beyond it.
  for (const int32_t id : request.prompt) {
    if (id < 0 || id >= plan_.limits.vocab_size) {
      throw_error(ErrorCode::kInvalidArgument,
                  "prompt: token id {} is outside of the model's 0 to {}", id,
                  plan_.limits.vocab_size - 1);
    }
  }
  size_t best = 0;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const int64_t open = replicas_[i]->state().unfinished();
    if (open < least) {
      least = open;
      best = i;
    }
  }
  Submission submission = replicas_[best]->state().submit(std::move(request), std::move(sink));
  submission.id = submission.id * replicas_.size() + best;
  return submission;
}

void ServingEngine::cancel(uint64_t id) {
  replicas_[id % replicas_.size()]->state().cancel(id / replicas_.size());
}

void ServingEngine::drain() {
  for (const std::unique_ptr<Replica>& replica : replicas_) {
    replica->state().drain();
  }
}

EngineStats ServingEngine::stats() const {
  EngineStats total = replicas_.front()->state().stats();
  for (size_t i = 1; i < replicas_.size(); ++i) {
    add_stats(replicas_[i]->state().stats(), total);
  }
  return total;
}

void run_serving_worker(const ServedModel& model, const ServingOptions& options,
                        const ServingPlan& plan) {
  run_serving_ranks(model, options, plan, nullptr);
}

}  // namespace plait
