#include "doctor/flight_reading.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "comm/operation.h"
#include "doctor/log_line.h"

namespace plait {
namespace {

using Operation = FlightLog::Operation;

bool is_collective(const Operation& operation) {
  return operation.kind != OpKind::kSend && operation.kind != OpKind::kRecv;
}

std::string to_the_ms(double time) {
  return fmt::format("{}.{:03.0f}", shown_time(time), std::floor(1000 * (time - std::floor(time))));
}

// The last collective of each member of one group.
struct GroupState {
  std::string name;
  std::vector<int> ranks;
  std::map<int, Operation> last_of;  // by rank
};

class FlightReader {
 public:
  explicit FlightReader(const std::vector<FlightLog>& logs) : logs_(logs) {
    for (const FlightLog& log : logs) {
      host_of_[log.rank] = log.host;
      for (const Operation& operation : log.operations) {
        if (operation.end == 0) {
          waiting_.insert(log.rank);
        }
        if (is_collective(operation)) {
          add(log, operation);
        }
      }
    }
  }

  std::string describe() {
    for (const auto& [key, group] : groups_) {
      compare_calls(group);
    }
    for (const auto& [key, group] : groups_) {
      find_absent(group);
    }
    for (const FlightLog& log : logs_) {
      for (const Operation& operation : log.operations) {
        if (operation.end == 0) {
          text_ += fmt::format(
              "{} plait flight record: rank {} of host {} was in {}, sequence {}, "
              "of group {}\n",
              to_the_ms(operation.begin), log.rank, log.host, op_kind_name(operation.kind),
              operation.sequence, log.groups[static_cast<size_t>(operation.group)].name);
        }
      }
    }
    return std::move(text_);
  }

 private:
  void add(const FlightLog& log, const Operation& operation) {
    const FlightLog::Group& group = log.groups[static_cast<size_t>(operation.group)];
    GroupState& state = groups_[{group.name, group.ranks}];
    state.name = group.name;
    state.ranks = group.ranks;
    Operation& last = state.last_of[log.rank];
    if (operation.sequence >= last.sequence) {
      last = operation;
    }
  }

  static bool anybody_waits(const GroupState& group) {
    return std::any_of(group.last_of.begin(), group.last_of.end(),
                       [](const auto& member) { return member.second.end == 0; });
  }

  static uint64_t last_sequence(const GroupState& group) {
    uint64_t last = 0;
    for (const auto& [rank, operation] : group.last_of) {
      last = std::max(last, operation.sequence);
    }
    return last;
  }

  // The call that most ranks made, against the others.
  void compare_calls(const GroupState& group) {
    if (!anybody_waits(group)) {
      return;
    }
    const uint64_t sequence = last_sequence(group);
    std::map<uint64_t, std::vector<int>> ranks_of;
    for (const auto& [rank, operation] : group.last_of) {
      if (operation.sequence == sequence && operation.signature != 0) {
        ranks_of[operation.signature].push_back(rank);
      }
    }
    if (ranks_of.size() < 2) {
      return;
    }
    const auto most = std::max_element(
        ranks_of.begin(), ranks_of.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    for (const auto& [signature, ranks] : ranks_of) {
      if (signature == most->first) {
        continue;
      }
      text_ += fmt::format(
          "{} plait flight record: rank {} of host {} called {} where {} rank(s) called {}, "
          "sequence {}, group {}\n",
          to_the_ms(group.last_of.at(ranks[0]).begin), ranks[0], host_of_[ranks[0]],
          describe_signature(signature), most->second.size(), describe_signature(most->first),
          sequence, group.name);
    }
  }

  // Members that are not in the operation that others wait in. One that waits in another group is
  // itself held up and not named.
  void find_absent(const GroupState& group) {
    if (!anybody_waits(group)) {
      return;
    }
    const uint64_t sequence = last_sequence(group);
    std::vector<int> members = group.ranks;
    if (members.empty()) {
      for (const auto& [rank, operation] : group.last_of) {
        members.push_back(rank);
      }
    }
    const Operation* waited = nullptr;
    size_t num_waiting = 0;
    for (const auto& [rank, operation] : group.last_of) {
      if (operation.sequence == sequence && operation.end == 0) {
        waited = &operation;
        ++num_waiting;
      }
    }
    for (const int rank : members) {
      const auto own = group.last_of.find(rank);
      const bool came = own != group.last_of.end() && own->second.sequence == sequence;
      if (waited == nullptr || came || waiting_.contains(rank)) {
        continue;
      }
      const std::string last =
          own == group.last_of.end()
              ? "it has no record of this group"
              : fmt::format("its last was sequence {} at {}", own->second.sequence,
                            to_the_ms(own->second.begin));
      text_ += fmt::format(
          "{} plait flight record: rank {} of host {} did not come to {}, sequence {}, of group "
          "{}, "
          "in which {} rank(s) wait; {}\n",
          to_the_ms(waited->begin), rank, host_of_.contains(rank) ? host_of_[rank] : "?",
          op_kind_name(waited->kind), sequence, group.name, num_waiting, last);
    }
  }

  const std::vector<FlightLog>& logs_;
  std::map<int, std::string> host_of_;
  std::set<int> waiting_;
  std::map<std::pair<std::string, std::vector<int>>, GroupState> groups_;
  std::string text_;
};

}  // namespace

std::string describe_flights(const std::vector<FlightLog>& logs) {
  return FlightReader(logs).describe();
}

}  // namespace plait
