#include "doctor/watchdog_reading.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "doctor/chars.h"
#include "doctor/failed_tasks.h"
#include "doctor/numbers.h"

namespace plait {
namespace {

constexpr int64_t kUnknown = -2;  // the watchdog itself prints -1 for "none yet"
constexpr const char* kUnnamed = "";

int64_t number_or_unknown(const Captures& words, const char* name) {
  return number_of(words, name).value_or(kUnknown);
}

// The group that a line's prefix names: "[PG ID 2 PG GUID 12(tp) Rank 1]", of older PyTorch
// "[PG 0 (default_pg) Rank 0]". The id is a count of the process's own groups, and so may differ
// between the ranks of one group; the GUID does not. kUnnamed if none is named.
std::string group_in(std::string_view text) {
  for (const std::string_view mark : {"PG GUID ", "PG ID ", "[PG "}) {
    if (const size_t at = text.find(mark); at != kNoPosition) {
      const std::string_view rest = text.substr(at + mark.size());
      return std::string(rest.substr(0, std::min(rest.find(" Rank "), rest.find(']'))));
    }
  }
  return kUnnamed;
}

// What one rank's watchdog says of one group.
struct Watchdog {
  int64_t sequence = kUnknown;  // that timed out
  std::string operation;
  int64_t elements = kUnknown;  // that the rank hands in
  std::string type;             // of the elements
  int64_t enqueued = kUnknown, completed = kUnknown;
  double time = -1;      // with its year; else < 0
  bool is_task = false;  // told by HCCL, not by a watchdog

  bool waits_in(int64_t number) const {
    return sequence == number || (completed >= 0 && completed < number && enqueued >= number);
  }
  std::string call() const {
    const std::string blank = type.empty() ? "" : " ";
    return elements == kUnknown ? operation
                                : fmt::format("{} of {}{}{} element{}", operation, elements, blank,
                                              type, elements == 1 ? "" : "s");
  }
};

using WatchdogsOfGroup = std::map<int, Watchdog>;  // by rank

// Ranks may hand in different numbers of elements to the others.
bool has_equal_sizes(const std::string& operation) {
  static const std::set<std::string> kEqual = {
      "ALLREDUCE", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE",
      "BROADCAST", "REDUCE",
      // As HCCL writes them.
      "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"};
  return kEqual.contains(operation);
}

bool is_message(const std::string& operation) {
  return operation == "SEND" || operation == "RECV" || operation == "COALESCED" ||
         operation.find("Send") != std::string::npos || operation == "Receive" ||
         operation == "Recv";
}

class WatchdogReader {
 public:
  WatchdogReader(const std::vector<ScannedFile>& files, const RuleSet& rules) : rules_(rules) {
    for (const ScannedFile& file : files) {
      for (const LogLine& line : file.lines) {
        for (const LogHit& hit : line.hits) {
          if (rules_.is_watchdog_pattern(hit.pattern)) {
            add(line, hit.captures);
          }
        }
      }
    }
    name_the_only_group();
    for (const FailedTask& task : read_failed_tasks(files)) {
      add_task(task);
    }
  }

  std::string describe() {
    for (const auto& [group, watchdogs] : groups_) {
      if (!compare_calls(watchdogs)) {
        find_behind(watchdogs);
      }
    }
    if (text_.empty()) {
      find_first_hung();
    }
    return std::move(text_);
  }

 private:
  void add(const LogLine& line, const Captures& words) {
    std::string group = group_in(line.text);
    int64_t rank = line.origin.rank;
    if (line.text.find("[rank") == std::string::npos) {
      rank = number_after(line.text, " Rank ").value_or(rank);
    }
    if (rank < 0 || rank > INT32_MAX) {
      return;
    }
    // A line without a group is about the one that the rank's other lines name.
    std::string& own = group_of_[static_cast<int>(rank)];
    if (group == kUnnamed) {
      group = own;
    } else if (own == kUnnamed) {
      name_group(static_cast<int>(rank), group);
    }
    own = group;
    Watchdog& watchdog = groups_[group][static_cast<int>(rank)];
    const int64_t sequence = number_or_unknown(words, "wd_sequence");
    if (sequence != kUnknown && watchdog.sequence == kUnknown) {
      watchdog.sequence = sequence;
      watchdog.operation = words.at("wd_operation");
      watchdog.elements = number_or_unknown(words, "wd_elements");
    }
    if (const int64_t enqueued = number_or_unknown(words, "wd_enqueued"); enqueued != kUnknown) {
      watchdog.enqueued = enqueued;
      const int64_t completed = number_or_unknown(words, "wd_completed");
      watchdog.completed = completed > enqueued ? kUnknown : completed;  // some print garbage
    }
    if (watchdog.time < 0 && line.origin.has_year) {
      watchdog.time = line.origin.time;
    }
  }

  void add_task(const FailedTask& task) {
    if (task.index < 0) {
      return;
    }
    Watchdog& watchdog = groups_["task of " + task.group][task.rank];
    watchdog.sequence = task.index;
    watchdog.operation = task.operation;
    watchdog.elements = task.count < 0 ? kUnknown : task.count;
    watchdog.type = task.type;
    watchdog.time = task.time;
    watchdog.is_task = true;
  }

  // What the rank said before it named the group.
  void name_group(int rank, const std::string& group) {
    WatchdogsOfGroup& unnamed = groups_[kUnnamed];
    if (const auto found = unnamed.find(rank); found != unnamed.end()) {
      groups_[group].insert(*found);
      unnamed.erase(found);
    }
  }

  // Ranks that name no group at all are in the one that the others name, if it is the only one.
  void name_the_only_group() {
    std::erase_if(groups_, [](const auto& group) { return group.second.empty(); });
    if (groups_.size() == 2 && groups_.begin()->first == kUnnamed) {
      std::next(groups_.begin())->second.merge(groups_.begin()->second);
    }
  }

  void say(const Watchdog& when, const std::string& what) {
    const std::string time = shown_time(when.time);
    text_ += fmt::format("{}{}plait {}: {}\n", time, time.empty() ? "" : " ",
                         when.is_task ? "tasks" : "watchdogs", what);
  }

  // True if ranks called different operations under one number.
  bool compare_calls(const WatchdogsOfGroup& watchdogs) {
    std::map<int64_t, std::map<std::string, std::vector<int>>> calls_of;  // by number, then call
    for (const auto& [rank, watchdog] : watchdogs) {
      if (watchdog.sequence != kUnknown && !is_message(watchdog.operation)) {
        const bool sized = has_equal_sizes(watchdog.operation);
        calls_of[watchdog.sequence][sized ? watchdog.call() : watchdog.operation].push_back(rank);
      }
    }
    for (const auto& [sequence, calls] : calls_of) {
      if (calls.size() < 2) {
        continue;
      }
      const auto most = std::max_element(
          calls.begin(), calls.end(),
          [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
      for (const auto& [call, ranks] : calls) {
        if (call == most->first) {
          continue;
        }
        // Of equally many nobody can say who is wrong.
        const bool settled = ranks.size() < most->second.size();
        say(watchdogs.at(ranks[0]),
            fmt::format("{} {} called {} as number {} of its group, rank {} called {}",
                        settled ? "rank" : "either rank", fmt::join(ranks, ","), call, sequence,
                        fmt::join(most->second, ","), most->first));
      }
      return true;
    }
    return false;
  }

  void find_behind(const WatchdogsOfGroup& watchdogs) {
    const auto waiting = std::max_element(
        watchdogs.begin(), watchdogs.end(),
        [](const auto& a, const auto& b) { return a.second.sequence < b.second.sequence; });
    if (waiting == watchdogs.end() || waiting->second.sequence == kUnknown) {
      return;
    }
    const int64_t waited = waiting->second.sequence;
    const auto num_waiting =
        std::count_if(watchdogs.begin(), watchdogs.end(),
                      [&](const auto& member) { return member.second.waits_in(waited); });
    for (const auto& [rank, watchdog] : watchdogs) {
      const bool behind = watchdog.enqueued >= 0 && watchdog.enqueued < waited;
      const bool waits_before = watchdog.sequence != kUnknown && watchdog.sequence < waited &&
                                !is_message(watchdog.operation);
      if (behind || waits_before) {
        say(waiting->second,
            fmt::format(
                "rank {} did not come to {}, number {} of its group, in which {}; its last "
                "is number {}",
                rank, waiting->second.call(), waited,
                num_waiting == 1 ? "one rank waits" : fmt::format("{} ranks wait", num_waiting),
                behind ? watchdog.enqueued : watchdog.sequence));
      }
    }
  }

  // Only if the job has done nothing else together.
  void find_first_hung() {
    const Watchdog* first = nullptr;
    std::set<int> ranks;
    for (const auto& [group, watchdogs] : groups_) {
      for (const auto& [rank, watchdog] : watchdogs) {
        if (watchdog.sequence > 1 || watchdog.completed > 0 || is_message(watchdog.operation)) {
          return;
        }
        if (watchdog.sequence != kUnknown && !watchdog.is_task) {
          first = &watchdog;
          ranks.insert(rank);
        }
      }
    }
    if (first != nullptr) {
      say(*first, fmt::format("the first operation of the group, {} on rank {}, never ended",
                              first->call(), fmt::join(ranks, ",")));
    }
  }

  const RuleSet& rules_;
  std::map<int, std::string> group_of_;             // by rank; kUnnamed
  std::map<std::string, WatchdogsOfGroup> groups_;  // by name
  std::string text_;
};

}  // namespace

std::string describe_watchdogs(const std::vector<ScannedFile>& files, const RuleSet& rules) {
  return WatchdogReader(files, rules).describe();
}

}  // namespace plait
