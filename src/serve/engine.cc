#include "serve/engine.h"

#include <pthread.h>

#include <utility>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/rank_runner.h"
#include "serve/engine_loop.h"
#include "serve/serving_rank.h"

namespace plait {
namespace {

// A seed for requests that bring none: differs from start to start.
uint64_t start_seed() {
  return static_cast<uint64_t>(now_s() * 1e9);
}

void run_serving_ranks(const ServedModel& model, const ServingOptions& options,
                       const ServingPlan& plan, EngineState* state) {
  RankRunnerOptions runner;
  runner.ranks = plan.layout.world_size();
  runner.device = options.device;
  runner.threads_per_rank = options.threads_per_rank;
  runner.comm.deadline_s = options.stall_limit_s;
  run_ranks(runner, [&](World& world) {
    ServingRank rank(model, plan, world);
    if (world.rank() != 0) {
      rank.follow();
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

}  // namespace

HostLimits host_limits(const Layout& layout) {
  return {.free_bytes = available_memory_bytes(),
          .local_ranks = under_mpi_launcher() ? launcher_local_size() : layout.world_size()};
}

ServingEngine::ServingEngine(ServedModel model, const ServingOptions& options,
                             const ServingPlan& plan)
    : model_(std::move(model)),
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

ServingEngine::~ServingEngine() {
  state_.stop();
  thread_.join();
}

void ServingEngine::serve() {
  try {
    run_serving_ranks(model_, options_, plan_, &state_);
  } catch (const Error& error) {
    log_error(-1, "the engine has stopped: {}", error.message());
    state_.fail(error);
  }
}

void ServingEngine::wait_until_ready() {
  if (const std::optional<Error> failure = state_.wait_until_ready()) {
    throw *failure;
  }
}

GenerationService::Submission ServingEngine::submit(GenerationRequest request, UpdateSink sink) {
  return state_.submit(std::move(request), std::move(sink));
}

void ServingEngine::cancel(uint64_t id) {
  state_.cancel(id);
}

void ServingEngine::drain() {
  state_.drain();
}

EngineStats ServingEngine::stats() const {
  return state_.stats();
}

void run_serving_worker(const ServedModel& model, const ServingOptions& options,
                        const ServingPlan& plan) {
  run_serving_ranks(model, options, plan, nullptr);
}

}  // namespace plait
