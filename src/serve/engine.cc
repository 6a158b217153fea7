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
#include "serve/replica_link.h"
#include "serve/replica_world.h"
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

// What this process has to do with a served model.
struct ServingTask {
  const ServedModel& model;
  const ServingOptions& options;
  const ServingPlan& plan;                // of one replica
  int replicas = 1;                       // in the world
  std::vector<EngineState*> states = {};  // by replica, in the process that answers clients
};

double beat_s(const ServingOptions& options) {
  return std::min(1.0, options.stall_limit_s / 8);
}

// The ranks of one replica; `state` on its rank 0.
void serve_replica(World& world, const ServingTask& task, EngineState* state) {
  ServingRank rank(task.model, task.plan, world);
  if (world.rank() != 0) {
    rank.follow(task.options.step_hook);
    return;
  }
  CHECK(state != nullptr);
  log_info(0, "loaded in {:.1f} s", rank.load_s());
  EngineLoop loop(task.options, task.plan, rank, *state);
  try {
    loop.warm_up();
    state->set_ready();
    loop.run();
  } catch (const Error& error) {
    loop.fail_requests(error);
    throw;
  }
}

// One rank of a world that holds several replicas: the first one's rank 0 answers clients and has a
// link to the rank 0 of each other.
void serve_one_of_replicas(World& world, const ServingTask& task) {
  const int size = task.plan.layout.world_size();
  ReplicaWorld replica(world, size);
  std::unique_ptr<ProcessGroup> own_link;
  std::vector<std::unique_ptr<ReplicaFront>> fronts;
  std::vector<std::unique_ptr<ProcessGroup>> links;
  for (int i = 1; i < task.replicas; ++i) {
    auto link = world.create_group(fmt::format("replica{}", i), {{0, i * size}});
    if (world.rank() == 0) {
      links.push_back(std::move(link));
    } else if (world.rank() == i * size) {
      own_link = std::move(link);
    }
  }
  if (world.rank() == 0) {
    for (size_t i = 0; i < links.size(); ++i) {
      fronts.push_back(std::make_unique<ReplicaFront>(std::move(links[i]), *task.states.at(i + 1),
                                                      beat_s(task.options)));
    }
    serve_replica(replica, task, task.states.front());
    return;
  }
  if (own_link == nullptr) {
    serve_replica(replica, task, nullptr);
    return;
  }
  // The other side bounds what is queued.
  EngineState state({.max_num_seqs = task.options.max_num_seqs,
                     .max_num_queued = std::numeric_limits<int32_t>::max(),
                     .max_model_len = task.plan.limits.max_model_len,
                     .seed = 0});
  const ReplicaBack back(std::move(own_link), state);
  serve_replica(replica, task, &state);
}

void run_serving_ranks(const ServingTask& task) {
  RankRunnerOptions runner;
  runner.ranks = task.plan.layout.world_size() * task.replicas;
  runner.device = task.options.device;
  runner.threads_per_rank = task.options.threads_per_rank;
  runner.comm.deadline_s = task.options.stall_limit_s;
  runner.spin_s = kSpinS;
  runner.leave_after_s = task.options.failure_grace_s + kLeaveMarginS;
  runner.on_lost_rank = [&task](const std::string& what) {
    for (EngineState* state : task.states) {
      refuse_all(*state, Error(ErrorCode::kComm, what));
    }
  };
  run_ranks(runner, [&](World& world) {
    if (task.replicas > 1) {
      serve_one_of_replicas(world, task);
    } else {
      serve_replica(world, task, task.states.empty() ? nullptr : task.states.front());
    }
  });
}

// What would stop the engine, or read beyond a table, does not reach it.
void check_request(const GenerationRequest& request, const UpdateSink& sink,
                   const EngineLimits& limits) {
  if (!sink) {
    throw_error(ErrorCode::kInvalidArgument, "a request needs a sink for its tokens");
  }
  const int64_t length = std::ssize(request.prompt);
  if (length == 0 || length + 1 > limits.max_model_len || request.sampling.max_tokens < 1) {
    throw_error(ErrorCode::kInvalidArgument,
                "a prompt of {} tokens with max_tokens {}; both need at least 1, and one token "
                "more than the prompt must fit the context of {}",
                length, request.sampling.max_tokens, limits.max_model_len);
  }
  for (const int32_t id : request.prompt) {
    if (id < 0 || id >= limits.vocab_size) {
      throw_error(ErrorCode::kInvalidArgument,
                  "prompt: token id {} is outside of the model's 0 to {}", id,
                  limits.vocab_size - 1);
    }
  }
}

ServingPlan plan_of_replica(const ServingPlan& plan) {
  ServingPlan replica = plan;
  replica.layout.dp = 1;
  return replica;
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

// One copy of the model with its scheduler, or, under an MPI launcher, what is here of it.
class ServingEngine::Replica {
 public:
  Replica(const ServingOptions& options, const ServingPlan& plan)
      : options_(options),
        plan_(plan),
        state_({.max_num_seqs = options.max_num_seqs,
                .max_num_queued = options.max_num_queued,
                .max_model_len = plan.limits.max_model_len,
                .seed = start_seed()}) {}
  // Requires: state().stop() was called if there is a thread.
  ~Replica() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Runs the ranks of `states`' replicas, this one's first.
  void start(const ServedModel& model, std::vector<EngineState*> states) {
    thread_ = std::thread([this, &model, states = std::move(states)] {
      pthread_setname_np(pthread_self(), "plait-engine");
      serve({.model = model,
             .options = options_,
             .plan = plan_,
             .replicas = static_cast<int>(states.size()),
             .states = states});
    });
  }

  EngineState& state() { return state_; }
  const EngineState& state() const { return state_; }

 private:
  static void serve(const ServingTask& task) {
    try {
      run_serving_ranks(task);
    } catch (const Error& error) {
      log_error(-1, "the engine has stopped: {}", error.message());
      for (EngineState* state : task.states) {
        refuse_all(*state, error);
      }
    }
  }

  ServingOptions options_;
  ServingPlan plan_;
  EngineState state_;
  std::thread thread_;
};

ServingEngine::ServingEngine(ServedModel model, const ServingOptions& options,
                             const ServingPlan& plan)
    : model_(std::move(model)), options_(options), plan_(plan) {
  const int dp = plan.layout.dp;
  ServingOptions of_replica = options;
  const ServingPlan replica_plan = plan_of_replica(plan);
  of_replica.layout = replica_plan.layout;
  if (options.threads_per_rank == 0 && dp > 1 && !under_mpi_launcher()) {
    of_replica.threads_per_rank = std::max(1, available_cores() / plan.layout.world_size());
  }
  std::vector<EngineState*> states;
  for (int i = 0; i < dp; ++i) {
    replicas_.push_back(std::make_unique<Replica>(of_replica, replica_plan));
    states.push_back(&replicas_.back()->state());
  }
  if (under_mpi_launcher()) {
    replicas_.front()->start(model_, states);
    return;
  }
  for (int i = 0; i < dp; ++i) {
    replicas_[static_cast<size_t>(i)]->start(model_, {states[static_cast<size_t>(i)]});
  }
}

ServingEngine::~ServingEngine() {
  for (const std::unique_ptr<Replica>& replica : replicas_) {
    replica->state().stop();
  }
}

void ServingEngine::wait_until_ready() {
  for (const std::unique_ptr<Replica>& replica : replicas_) {
    if (const std::optional<Error> failure = replica->state().wait_until_ready()) {
      throw Error(*failure);
    }
  }
}

// Ids of clients: the replica's own, then which replica.
GenerationService::Submission ServingEngine::submit(GenerationRequest request, UpdateSink sink) {
  check_request(request, sink, plan_.limits);
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
  const ServingPlan replica_plan = plan_of_replica(plan);
  run_serving_ranks(
      {.model = model, .options = options, .plan = replica_plan, .replicas = plan.layout.dp});
}

}  // namespace plait
