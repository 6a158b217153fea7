#include "comm/local/local_world.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpu_info.h"
#include "base/error.h"
#include "comm/local/group_state.h"
#include "comm/local/local_group.h"
#include "comm/local/world_state.h"
#include "comm/single_group.h"
#include "comm/world_groups.h"

namespace plait {
namespace {

class LocalWorld final : public World {
 public:
  LocalWorld(WorldState& state, int rank, Device& device)
      : state_(state), rank_(rank), device_(device) {}

  int rank() const override { return rank_; }
  int size() const override { return state_.options().size; }
  Device& device() override { return device_; }

  std::unique_ptr<ProcessGroup> create_group(
      const std::string& name, const std::vector<std::vector<int>>& partition) override {
    check_partition(name, partition, size());
    if (state_.aborted()) {
      state_.throw_aborted(rank_);
    }
    std::shared_ptr<GroupState> group = state_.join_group(num_groups_++, name, partition, rank_);
    if (group == nullptr || group->size() == 1) {
      return make_single_group(name, device_);
    }
    const auto& ranks = group->ranks();
    const auto place = std::ranges::find(ranks, rank_) - ranks.begin();
    return std::make_unique<LocalGroup>(std::move(group), static_cast<int>(place), device_);
  }

  void abort(const std::string& reason) override {
    state_.abort("rank " + std::to_string(rank_) + " ended the job: " + reason);
  }

 private:
  WorldState& state_;
  const int rank_;
  Device& device_;
  int64_t num_groups_ = 0;
};

// The error of the rank that failed first, with the rank in its message.
struct FirstError {
  std::mutex mutex;
  std::exception_ptr error;

  void offer(WorldState& state, int rank, ErrorCode code, const std::string& message) {
    const std::string name = "rank " + std::to_string(rank);
    const bool is_named = message.find(name) != std::string::npos;
    const std::string full = is_named ? message : name + ": " + message;
    const bool was_first = state.abort(full);
    const std::scoped_lock lock(mutex);
    if (was_first || error == nullptr) {
      error = std::make_exception_ptr(Error(code, full));
    }
  }
};

void run_rank(const RankRunnerOptions& options, const DeviceOptions& device_options,
              const std::function<void(World&)>& body, int rank, WorldState& state,
              FirstError& first) {
  try {
    const std::unique_ptr<Device> device = make_device(options.device, device_options);
    LocalWorld world(state, rank, *device);
    body(world);
  } catch (const Error& e) {
    first.offer(state, rank, e.code(), e.message());
  } catch (const std::bad_alloc&) {
    first.offer(state, rank, ErrorCode::kResourceExhausted, "out of memory");
  } catch (const std::exception& e) {
    first.offer(state, rank, ErrorCode::kUnavailable,
                std::string("unexpected exception: ") + e.what());
  }
}

}  // namespace

void run_local_ranks(const RankRunnerOptions& options, const std::function<void(World&)>& body) {
  if (options.ranks < 1) {
    throw_error(ErrorCode::kInvalidArgument, "ranks is {}; it must be at least 1", options.ranks);
  }
  const int cores = available_cores();
  const int threads =
      options.threads_per_rank > 0 ? options.threads_per_rank : std::max(1, cores / options.ranks);
  const bool may_spin = static_cast<int64_t>(options.ranks) * threads <= cores;
  DeviceOptions device_options;
  device_options.num_threads = threads;
  if (!may_spin) {
    device_options.spin_us = 0;
  }

  WorldState state({options.ranks, options.comm.deadline_s, may_spin ? options.spin_s : 0});
  FirstError first;
  std::vector<std::thread> others;
  // Rank 0 runs on the calling thread: profilers and signal handlers find it there.
  for (int rank = 1; rank < options.ranks; ++rank) {
    others.emplace_back([&, rank] {
      pthread_setname_np(pthread_self(), ("plait-rank-" + std::to_string(rank)).c_str());
      run_rank(options, device_options, body, rank, state, first);
    });
  }
  run_rank(options, device_options, body, 0, state, first);
  for (std::thread& thread : others) {
    thread.join();
  }
  if (first.error != nullptr) {
    std::rethrow_exception(first.error);
  }
  if (state.aborted()) {
    state.throw_aborted(0);
  }
}

}  // namespace plait
