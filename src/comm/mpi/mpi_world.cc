#include "comm/mpi/mpi_world.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/log.h"
#include "base/watchdog.h"
#include "comm/mpi/mpi_group.h"
#include "comm/mpi/side_channel.h"
#include "comm/single_group.h"
#include "comm/world_groups.h"

namespace plait {
namespace {

// A stopped peer is noticed within this part of the deadline, so that every rank has ended when the
// deadline passes.
constexpr double kSilencePart = 0.75;
// How long a failed rank stays, so that its peers hear of the failure before the launcher ends
// them.
constexpr useconds_t kFarewellUs = 100000;
// How long a rank that was told to stop stays, so that the failed one is the first to exit: the
// launcher then shows its message and its status, and ends the others.
constexpr useconds_t kFollowUs = 1000000;
constexpr double kSlowStartS = 20;

// For the CHECK hook, which has no object to ask.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): see above.
std::atomic<SideChannel*> check_channel{nullptr};
std::atomic<int> check_rank{0};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void on_failed_check(const std::string& message) {
  if (SideChannel* channel = check_channel.load()) {
    channel->announce_failure("rank " + std::to_string(check_rank.load()) + ": " + message);
    usleep(kFarewellUs);
  }
}

class MpiWorld final : public World {
 public:
  MpiWorld(const MpiContext& context, std::vector<int> hosts)
      : context_(context), hosts_(std::move(hosts)) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_group(MPI_COMM_WORLD, &group_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Device& device() override { return *context_.device; }

  std::unique_ptr<ProcessGroup> create_group(
      const std::string& name, const std::vector<std::vector<int>>& partition) override {
    check_partition(name, partition, size_);
    for (const std::vector<int>& ranks : partition) {
      const auto place = std::ranges::find(ranks, rank_);
      if (place == ranks.end() || ranks.size() == 1) {
        continue;
      }
      MpiGroup::Options options;
      options.name = name;
      options.ranks = ranks;
      options.rank = static_cast<int>(place - ranks.begin());
      options.collectives = create_comm(ranks, 0);
      options.transfers = create_comm(ranks, 1);
      for (const int rank : ranks) {
        options.hosts.push_back(hosts_[static_cast<size_t>(rank)]);
      }
      return std::make_unique<MpiGroup>(std::move(options), context_);
    }
    return make_single_group(name, *context_.device);
  }

  void abort(const std::string& reason) override {
    const std::string full = fmt::format("rank {} ended the job: {}", rank_, reason);
    {
      const std::scoped_lock lock(mutex_);
      abort_reason_ = abort_reason_.empty() ? full : abort_reason_;
    }
    context_.side_channel->announce_failure(full);
  }

  // Empty unless abort() was called here.
  std::string abort_reason() {
    const std::scoped_lock lock(mutex_);
    return abort_reason_;
  }

 private:
  MPI_Comm create_comm(const std::vector<int>& ranks, int tag) {
    MPI_Group group = MPI_GROUP_NULL;
    check_mpi(MPI_Group_incl(group_, static_cast<int>(ranks.size()), ranks.data(), &group),
              "MPI_Group_incl");
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &comm), "MPI_Comm_create_group");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Group_free(&group);
    return comm;
  }

  MpiContext context_;
  std::vector<int> hosts_;  // host number by rank
  int rank_ = 0;
  int size_ = 1;
  MPI_Group group_ = MPI_GROUP_NULL;
  std::mutex mutex_;
  std::string abort_reason_;
};

// Every rank's text, padded to a common length.
std::vector<std::string> all_gather_text(const std::string& mine) {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  auto length = static_cast<int>(mine.size());
  MPI_Allreduce(MPI_IN_PLACE, &length, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  std::string padded = mine;
  padded.resize(static_cast<size_t>(length), '\0');
  std::string all(static_cast<size_t>(length) * static_cast<size_t>(size), '\0');
  MPI_Allgather(padded.data(), length, MPI_CHAR, all.data(), length, MPI_CHAR, MPI_COMM_WORLD);
  std::vector<std::string> texts;
  for (int i = 0; i < size; ++i) {
    const std::string text = all.substr(static_cast<size_t>(i) * static_cast<size_t>(length),
                                        static_cast<size_t>(length));
    texts.emplace_back(text.c_str());
  }
  return texts;
}

// Numbers the hosts in order of their first rank.
std::vector<int> number_hosts() {
  char name[MPI_MAX_PROCESSOR_NAME + 1] = {};
  int length = 0;
  MPI_Get_processor_name(name, &length);
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const std::string& host : all_gather_text(name)) {
    hosts.push_back(numbers.emplace(host, static_cast<int>(numbers.size())).first->second);
  }
  return hosts;
}

// MPI_Init waits for all ranks, and only the launcher can end that wait: a long one is said.
void start_mpi(int& provided) {
  const Watchdog watchdog(kSlowStartS, [] {
    if (launcher_rank() < 2) {  // either may be the one that is stopped
      log_warning(launcher_rank(),
                  "MPI_Init has waited {} s for the other ranks: one may be stopped, or its host "
                  "unreachable; the launcher ends the job (mpirun --timeout SECONDS, or a signal)",
                  kSlowStartS);
    }
  });
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
}

void initialise(const RankRunnerOptions& options) {
  int is_initialised = 0;
  MPI_Initialized(&is_initialised);
  CHECK_EQ(is_initialised, 0);
  int provided = 0;
  start_mpi(provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (provided < MPI_THREAD_MULTIPLE) {
    throw_error(ErrorCode::kUnavailable,
                "this MPI library gives thread level {} where MPI_THREAD_MULTIPLE ({}) is needed",
                provided, static_cast<int>(MPI_THREAD_MULTIPLE));
  }
  if (size != launcher_world_size()) {
    throw_error(
        ErrorCode::kUnavailable,
        "the launcher started {} ranks, but MPI sees {}: it is another MPI's launcher (with "
        "srun, try --mpi=pmix)",
        launcher_world_size(), size);
  }
  if (options.ranks != size) {
    throw_error(ErrorCode::kInvalidArgument,
                "{} ranks were asked for, but the launcher started {}; make the two agree",
                options.ranks, size);
  }
}

std::unique_ptr<SideChannel> open_side_channel(const RankRunnerOptions& options, int rank) {
  SideChannelOptions side;
  side.rank = rank;
  side.size = options.ranks;
  side.silence_s = options.comm.deadline_s * kSilencePart;
  side.run_dir = options.run_dir;
  side.on_lost_rank = options.on_lost_rank;
  side.leave_after_s = options.leave_after_s;
  auto channel = std::make_unique<SideChannel>(side);
  const std::string mine = rank == 0 ? channel->listen().encode() : "";
  channel->start(SideChannelAddress::decode(all_gather_text(mine)[0]));
  return channel;
}

// Runs the body and leaves together with the others; throws what the body threw.
void run_body(const MpiContext& context, const std::vector<int>& hosts,
              const std::function<void(World&)>& body) {
  MpiWorld world(context, hosts);
  const std::string name = "rank " + std::to_string(world.rank());
  const auto announce = [&](const std::string& message) {
    const bool is_named = message.find(name) != std::string::npos;
    std::string full = is_named ? message : name + ": " + message;
    if (context.side_channel->stopped()) {
      usleep(kFollowUs);
    } else {
      context.side_channel->announce_failure(full);
      usleep(kFarewellUs);
    }
    return full;
  };
  try {
    body(world);
    if (world.abort_reason().empty()) {
      context.side_channel->say_goodbye(context.deadline_s);
    }
  } catch (const Error& e) {
    throw Error(e.code(), announce(e.message()));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kResourceExhausted, announce("out of memory"));
  } catch (const std::exception& e) {
    throw Error(ErrorCode::kUnavailable,
                announce(std::string("unexpected exception: ") + e.what()));
  }
  if (const std::string reason = world.abort_reason(); !reason.empty()) {
    usleep(kFarewellUs);
    throw_error(ErrorCode::kCancelled, "{} was told to stop: {}", name, reason);
  }
  if (context.side_channel->stopped()) {
    usleep(kFollowUs);
    throw_error(ErrorCode::kCancelled, "{} was told to stop: {}", name,
                context.side_channel->stop_reason());
  }
}

}  // namespace

void run_mpi_rank(const RankRunnerOptions& options, const std::function<void(World&)>& body) {
  initialise(options);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::vector<int> hosts = number_hosts();
  const auto local_ranks =
      static_cast<int>(std::ranges::count(hosts, hosts[static_cast<size_t>(rank)]));
  const int cores = available_cores();
  // Bound to fewer cores than the host has, a rank sees only its own.
  const int threads =
      options.threads_per_rank > 0 ? options.threads_per_rank : std::max(1, cores / local_ranks);
  const bool may_spin = local_ranks * threads <= cores;

  const std::unique_ptr<SideChannel> channel = open_side_channel(options, rank);
  check_rank = rank;
  check_channel = channel.get();
  set_check_hook(on_failed_check);
  struct HookReset {
    ~HookReset() { check_channel = nullptr; }
  } reset;

  DeviceOptions device_options;
  device_options.num_threads = threads;
  if (!may_spin) {
    device_options.spin_us = 0;
  }
  {
    const std::unique_ptr<Device> device = make_device(options.device, device_options);
    run_body({device.get(), channel.get(), options.comm.deadline_s, may_spin}, hosts, body);
  }
  check_mpi(MPI_Finalize(), "MPI_Finalize");
}

}  // namespace plait
