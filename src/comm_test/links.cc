#include "comm_test/links.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/statistics.h"
#include "comm/gather_values.h"
#include "comm_test/stall_monitor.h"

namespace plait {
namespace {

constexpr int64_t kPingBytes = 64;
// TCP sends a lone lost segment again after 200 ms.
constexpr double kLostS = 0.15;
constexpr double kSpinS = 2e-3;
constexpr double kPauseS = 1e-4;

// The two ends of a pair.
class PairTest {
 public:
  PairTest(World& world, ProcessGroup& group, const LinkOptions& options,
           const std::vector<std::string>& hosts)
      : group_(group),
        options_(options),
        hosts_(hosts),
        large_(world.device(), options.bytes, MemoryCategory::kComm),
        small_(world.device(), kPingBytes, MemoryCategory::kComm) {
    world.device().stream().zero(large_.ptr(), large_.bytes());
    world.device().stream().zero(small_.ptr(), small_.bytes());
    world.device().stream().synchronize();
  }

  // Called on both; returns what this rank measured as the source.
  LinkSample run(int source, int destination) {
    const bool sends = group_.rank() == source;
    peer_ = sends ? destination : source;
    LinkSample sample;
    sample.source = source;
    sample.destination = destination;
    std::vector<double> trips;
    // The first one may set up a connection.
    round_trip(sends, small_);
    for (int i = 0; i < options_.pings; ++i) {
      trips.push_back(round_trip(sends, small_));
    }
    round_trip(sends, large_);
    double best = 1e30, worst = 0;
    for (int i = 0; i < options_.repeats; ++i) {
      const double trip = round_trip(sends, large_);
      best = std::min(best, trip);
      worst = std::max(worst, trip);
    }
    const double middle = median(trips);
    sample.latency_s = middle / 2;
    sample.worst_s = *std::max_element(trips.begin(), trips.end());
    sample.pings = options_.pings;
    sample.lost = static_cast<int>(std::count_if(trips.begin(), trips.end(), [&](double trip) {
      return trip > std::max(kLostS, 20 * middle);
    }));
    // The answer of a large message is small: half a round trip.
    const auto bytes = static_cast<double>(options_.bytes);
    sample.bandwidth = bytes / std::max(best - middle / 2, 1e-9);
    sample.slowest = bytes / std::max(worst - middle / 2, 1e-9);
    return sample;
  }

 private:
  // The source sends `buffer` and gets a small answer. Seconds, on the source.
  double round_trip(bool sends, const Buffer& buffer) {
    const double start = now_s();
    if (sends) {
      Work sent = group_.send(transfer(buffer));
      wait(group_.recv(transfer(small_)), "the answer to a message of", buffer.bytes());
      wait(sent, "a message of", buffer.bytes());
    } else {
      wait(group_.recv(transfer(buffer)), "a message of", buffer.bytes());
      wait(group_.send(transfer(small_)), "the answer to a message of", buffer.bytes());
    }
    return now_s() - start;
  }

  TransferOptions transfer(const Buffer& buffer) const {
    return {.buffer = buffer.ptr(), .bytes = buffer.bytes(), .peer = peer_, .async = true};
  }

  void wait(Work work, const char* what, int64_t bytes) {
    const double start = now_s();
    while (!work.done()) {
      if (now_s() - start > options_.limit_s) {
        const auto host = [&](int rank) { return hosts_[static_cast<size_t>(rank)]; };
        throw_error(ErrorCode::kComm,
                    "link between rank {} (host {}) and rank {} (host {}): {} {} bytes did not "
                    "arrive within {:.1f} s: the link is down, or the peer hangs",
                    group_.rank(), host(group_.rank()), peer_, host(peer_), what, bytes,
                    options_.limit_s);
      }
      // Short messages are polled for; the core is for others while a long one travels.
      if (now_s() - start < kSpinS) {
        std::this_thread::yield();
      } else {
        std::unique_lock lock(mutex_);
        never_.wait_for(lock, std::chrono::duration<double>(kPauseS));
      }
    }
    work.wait();
  }

  ProcessGroup& group_;
  const LinkOptions& options_;
  const std::vector<std::string>& hosts_;
  Buffer large_, small_;
  int peer_ = 0;
  std::mutex mutex_;
  std::condition_variable never_;
};

}  // namespace

std::vector<std::vector<std::pair<int, int>>> link_rounds(const std::vector<std::string>& hosts) {
  const int ranks = static_cast<int>(hosts.size());
  std::vector<std::pair<int, int>> left;
  // By distance: neighbours of a round are then different pairs of hosts.
  for (int distance = 1; distance < ranks; ++distance) {
    for (int a = 0; a + distance < ranks; ++a) {
      left.emplace_back(a, a + distance);
    }
  }
  std::vector<std::vector<std::pair<int, int>>> rounds;
  while (!left.empty()) {
    std::set<int> busy;
    std::set<std::string> busy_hosts;
    std::vector<std::pair<int, int>> round, later;
    for (const auto& pair : left) {
      const std::string& a = hosts[static_cast<size_t>(pair.first)];
      const std::string& b = hosts[static_cast<size_t>(pair.second)];
      const bool crosses = a != b;
      const bool free = busy.count(pair.first) == 0 && busy.count(pair.second) == 0 &&
                        (!crosses || (busy_hosts.count(a) == 0 && busy_hosts.count(b) == 0));
      if (!free) {
        later.push_back(pair);
        continue;
      }
      busy.insert({pair.first, pair.second});
      if (crosses) {
        busy_hosts.insert({a, b});
      }
      round.push_back(pair);
    }
    rounds.push_back(std::move(round));
    left = std::move(later);
  }
  return rounds;
}

LinkResult measure_links(World& world, ProcessGroup& group, const LinkOptions& options,
                         const std::function<void(int, int)>& progress) {
  if (options.bytes < 1 || options.repeats < 1 || options.pings < 1 || options.limit_s <= 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "bytes={}, repeats={}, pings={}, limit={}: all must be positive", options.bytes,
                options.repeats, options.pings, options.limit_s);
  }
  const StallMonitor monitor;
  LinkResult result;
  result.hosts = group.gather_bytes(host_name());
  PairTest test(world, group, options, result.hosts);
  std::vector<LinkSample> mine;
  const auto rounds = link_rounds(result.hosts);
  int done = 0;
  for (const auto& round : rounds) {
    for (const auto& [a, b] : round) {
      if (group.rank() != a && group.rank() != b) {
        continue;
      }
      for (const auto& [source, destination] : {std::pair{a, b}, std::pair{b, a}}) {
        const LinkSample sample = test.run(source, destination);
        if (group.rank() == source) {
          mine.push_back(sample);
        }
      }
    }
    group.barrier();
    if (group.rank() == 0) {
      progress(++done, static_cast<int>(rounds.size()));
    }
  }
  std::string bytes(mine.size() * sizeof(LinkSample), '\0');
  if (!mine.empty()) {
    std::memcpy(bytes.data(), mine.data(), bytes.size());
  }
  for (const std::string& other : group.gather_bytes(bytes)) {
    const size_t before = result.samples.size();
    result.samples.resize(before + other.size() / sizeof(LinkSample));
    if (!other.empty()) {
      std::memcpy(result.samples.data() + before, other.data(), other.size());
    }
  }
  std::stable_sort(result.samples.begin(), result.samples.end(),
                   [](const LinkSample& a, const LinkSample& b) {
                     return std::pair(a.source, a.destination) < std::pair(b.source, b.destination);
                   });
  result.stalled_share = gather_values(group, monitor.stalled_share());
  return result;
}

}  // namespace plait
