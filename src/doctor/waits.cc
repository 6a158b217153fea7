#include "doctor/waits.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/numbers.h"

namespace plait {
namespace {

// -1 if there is none. HCCL prints an unknown rank as the largest 32-bit number.
int rank_of(const Captures& words, const char* name) {
  const int64_t value = number_of(words, name).value_or(-1);
  return value <= INT32_MAX ? static_cast<int>(value) : -1;
}

// The rank that reports a finding.
int reporter(const Finding& finding) {
  const int captured = rank_of(finding.captures, "rank");
  return captured >= 0 ? captured : finding.origin.rank;
}

}  // namespace

WaitedFor find_waited_for(const std::vector<Finding>& findings) {
  std::set<int> waiting;
  std::map<int, std::set<int>> waiters_of;
  std::map<int, std::string> host_of;
  int group_size = 0;
  for (const Finding& finding : findings) {
    if (finding.rule->role != FaultRole::kSymptom) {
      continue;
    }
    const int who = reporter(finding);
    if (who >= 0) {
      waiting.insert(who);
    }
    group_size = std::max(group_size, rank_of(finding.captures, "rank_size"));
    const int named = rank_of(finding.captures, "g_rank");
    if (named >= 0 && named != who) {
      waiters_of[named].insert(who);
      if (const auto host = finding.captures.find("g_host"); host != finding.captures.end()) {
        host_of[named] = host->second;
      }
    }
  }
  int guilty = -1;
  size_t most = 0;
  for (const auto& [rank, waiters] : waiters_of) {
    if (!waiting.contains(rank) && waiters.size() > most) {
      guilty = rank;
      most = waiters.size();
    }
  }
  if (guilty >= 0) {
    return {std::to_string(guilty), host_of[guilty],
            fmt::format("rank {} is waited for by {} rank{} and reports no wait itself", guilty,
                        most, most == 1 ? "" : "s")};
  }
  const int num_waiting = static_cast<int>(waiting.size());
  bool most_wait = num_waiting * 2 >= group_size && num_waiting > 1;
  constexpr int kMostRanks = 65536;
  if (group_size <= 0 && num_waiting >= 4 && *waiting.rbegin() < kMostRanks) {
    // Nobody tells the size: a hole among the ranks that wait is as good, if it is a small one.
    group_size = *waiting.rbegin() + 1;
    most_wait = (group_size - num_waiting) * 4 <= num_waiting;
  }
  if (group_size > 0 && group_size <= kMostRanks && most_wait) {
    std::string missing;
    for (int rank = 0; rank < group_size; ++rank) {
      if (!waiting.contains(rank)) {
        missing += (missing.empty() ? "" : ",") + std::to_string(rank);
      }
    }
    if (!missing.empty()) {
      return {missing, "",
              fmt::format("{} of {} ranks report the wait, these do not: {}", num_waiting,
                          group_size, missing)};
    }
  }
  return {};
}

}  // namespace plait
