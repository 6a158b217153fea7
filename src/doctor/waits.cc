#include "doctor/waits.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

class WaitGraph {
 public:
  void add_findings(const std::vector<Finding>& findings) {
    for (const Finding& finding : findings) {
      if (finding.rule->role != FaultRole::kSymptom) {
        continue;
      }
      const int who = reporter(finding);
      if (who >= 0) {
        waiting_.insert(who);
      }
      group_size_ = std::max(group_size_, rank_of(finding.captures, "rank_size"));
      add_wait(who, finding.captures);
      namers_.push_back(&finding);
      patterns_.insert(finding.rule->any.begin(), finding.rule->any.end());
      patterns_.insert(finding.rule->also.begin(), finding.rule->also.end());
    }
  }

  // Of what the findings are made of, the other lines too.
  void add_lines(const std::vector<ScannedFile>& files) {
    for (const ScannedFile& file : files) {
      for (const LogLine& line : file.lines) {
        for (const LogHit& hit : line.hits) {
          if (patterns_.contains(hit.pattern) && hit.captures.contains("g_rank")) {
            const int captured = rank_of(hit.captures, "rank");
            add_wait(captured >= 0 ? captured : line.origin.rank, hit.captures);
          }
        }
      }
    }
  }

  // Those who are named by most ranks and do not wait themselves.
  WaitedFor named() const {
    size_t most = 0;
    WaitedFor result;
    for (const auto& [rank, waiters] : waiters_of_) {
      if (waiting_.contains(rank) || waiters.size() < most) {
        continue;
      }
      if (waiters.size() > most) {
        most = waiters.size();
        result.named.clear();
      }
      result.named.insert(rank);
    }
    if (result.named.empty()) {
      return result;
    }
    const bool one = result.named.size() == 1;
    result.rank = fmt::format("{}", fmt::join(result.named, ","));
    result.reason =
        fmt::format("rank{} {} {} waited for by {} rank{}{} and report{} no wait {}",
                    one ? "" : "s", result.rank, one ? "is" : "are", most, most == 1 ? "" : "s",
                    one ? "" : " each", one ? "s" : "", one ? "itself" : "themselves");
    result.host = common_word(result.named, "g_host");
    result.device = one ? common_word(result.named, "g_device") : "";
    const auto told_by = std::ranges::find_if(namers_, [&](const Finding* finding) {
      return result.named.contains(rank_of(finding->captures, "g_rank"));
    });
    result.told_by = told_by == namers_.end() ? nullptr : *told_by;
    return result;
  }

  // Ranks of the group that say nothing.
  WaitedFor missing() const {
    const int num_waiting = static_cast<int>(waiting_.size());
    int group_size = group_size_;
    bool most_wait = num_waiting * 2 >= group_size && num_waiting > 1;
    constexpr int kMostRanks = 65536;
    if (group_size <= 0 && num_waiting >= 4 && *waiting_.rbegin() < kMostRanks) {
      // Nobody tells the size: a hole among the ranks that wait is as good, if it is a small one.
      group_size = *waiting_.rbegin() + 1;
      most_wait = (group_size - num_waiting) * 4 <= num_waiting;
    }
    std::string missing;
    for (int rank = 0; most_wait && group_size <= kMostRanks && rank < group_size; ++rank) {
      if (!waiting_.contains(rank)) {
        missing += (missing.empty() ? "" : ",") + std::to_string(rank);
      }
    }
    WaitedFor result;
    if (!missing.empty()) {
      result.rank = missing;
      result.reason = fmt::format("{} of {} ranks report the wait, these do not: {}", num_waiting,
                                  group_size, missing);
    }
    return result;
  }

 private:
  // "" if the ranks differ in it.
  std::string common_word(const std::set<int>& ranks, const char* name) const {
    std::set<std::string> words;
    for (const int rank : ranks) {
      const Captures& known = words_of_.at(rank);
      const auto found = known.find(name);
      words.insert(found == known.end() ? "" : found->second);
    }
    return words.size() == 1 ? *words.begin() : "";
  }

  void add_wait(int who, const Captures& words) {
    const int named = rank_of(words, "g_rank");
    if (named < 0 || named == who) {
      return;
    }
    if (who >= 0) {
      waiting_.insert(who);
    }
    waiters_of_[named].insert(who);
    Captures& known = words_of_[named];
    for (const char* name : {"g_host", "g_device"}) {
      if (const auto found = words.find(name); found != words.end()) {
        known.insert_or_assign(name, found->second);
      }
    }
  }

  std::set<int> waiting_;
  std::map<int, std::set<int>> waiters_of_;
  std::map<int, Captures> words_of_;  // g_host and g_device of whom others wait for
  std::vector<const Finding*> namers_;
  std::set<int> patterns_;
  int group_size_ = 0;
};

}  // namespace

WaitedFor find_waited_for(const std::vector<ScannedFile>& files,
                          const std::vector<Finding>& findings) {
  WaitGraph graph;
  graph.add_findings(findings);
  graph.add_lines(files);
  WaitedFor named = graph.named();
  return named.rank.empty() ? graph.missing() : named;
}

}  // namespace plait
