#include "doctor/failed_tasks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "doctor/chars.h"
#include "doctor/jobs.h"
#include "doctor/numbers.h"
#include "doctor/processes.h"

namespace plait {
namespace {

std::string word_of(const Captures& words, const char* name) {
  const auto found = words.find(name);
  return found == words.end() ? "" : found->second;
}

// "AllReduce" of "AllReduce_192.0.2.1%eth0_60000_0_17".
std::string operation_of(const std::string& tag) {
  return tag.substr(0, tag.find_first_of("_-0123456789"));
}

// HcclCMDType; "" for one that is not known.
std::string operation_name(int64_t type) {
  static constexpr const char* kNames[] = {
      "",         "Broadcast", "AllReduce",     "Reduce",       "Send",
      "Receive",  "AllGather", "ReduceScatter", "AlltoAllV",    "AlltoAllVC",
      "AlltoAll", "Gather",    "Scatter",       "BatchSendRecv"};
  return type > 0 && type < static_cast<int64_t>(std::size(kNames)) ? kNames[type] : "";
}

bool says_timeout(const std::string& text) {
  static constexpr std::string_view kWords[] = {"[Timeout]", "EI0002", "times out", "NOTIFY WAIT"};
  return std::ranges::any_of(
      kWords, [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

class TaskReader {
 public:
  explicit TaskReader(const std::vector<ScannedFile>& files) {
    for (const ScannedFile& file : files) {
      current_.clear();
      for (const LogLine& line : file.lines) {
        for (const LogHit& hit : line.hits) {
          largest_ = std::max(largest_, number_of(hit.captures, "setup_size").value_or(-1));
          exec_timeout_ =
              std::max(exec_timeout_, number_of(hit.captures, "exec_timeout").value_or(-1));
        }
        read(file, line);
      }
      for (const auto& [process, task] : current_) {
        keep(task);
      }
    }
  }

  // -1 if no log tells it.
  int64_t exec_timeout() const { return exec_timeout_; }

  std::vector<FailedTask> tasks() const {
    int64_t largest = largest_;
    std::map<std::string, std::map<int, std::set<std::string>>> processes;  // by group, then rank
    for (const FailedTask& task : tasks_) {
      largest = std::max(largest, task.group_size);
      // A process may be told of by its plog and by the console.
      const size_t pid = task.process.rfind(' ') + 1;
      processes[task.group][task.rank].insert(task.process.substr(pid));
    }
    std::vector<FailedTask> result;
    std::set<std::pair<std::string, int>> told;
    for (const FailedTask& task : tasks_) {
      const bool one_group =
          !communicator_of(task.group).empty() || (largest > 0 && task.group_size == largest);
      const auto& ranks = processes[task.group];
      const bool one_each =
          std::ranges::all_of(ranks, [](const auto& rank) { return rank.second.size() == 1; });
      if (one_group && one_each && told.insert({task.group, task.rank}).second) {
        result.push_back(task);
      }
    }
    return result;
  }

 private:
  void read(const ScannedFile& file, const LogLine& line) {
    const auto words_with = [&](const char* name) -> const Captures* {
      const auto found = std::ranges::find_if(
          line.hits, [&](const LogHit& hit) { return hit.captures.contains(name); });
      return found == line.hits.end() ? nullptr : &found->captures;
    };
    const Captures* tag = words_with("task_tag");
    const Captures* type = words_with("task_type");
    const Captures* group = words_with("task_group");
    const Captures* index = words_with("task_index");
    if (tag == nullptr && type == nullptr && group == nullptr && index == nullptr) {
      return;
    }
    const std::string process = process_of(file, line);
    if (tag != nullptr || type != nullptr) {
      keep(current_[process]);
      current_[process] = {};
    }
    FailedTask& task = current_[process];
    if (tag != nullptr || type != nullptr) {
      task.process = process.empty() ? file.name : process;
      task.time = line.origin.has_year ? line.origin.time : -1;
      task.timed_out = says_timeout(line.text);
      task.operation = tag == nullptr ? "" : operation_of(word_of(*tag, "task_tag"));
    }
    if (group != nullptr) {
      task.group = word_of(*group, "task_group");
      task.group_size = number_of(*group, "task_group_size").value_or(-1);
    }
    if (group != nullptr || index != nullptr) {
      task.rank = line.origin.rank;
    }
    if (index != nullptr) {
      add_call(*index, task);
    }
  }

  static void add_call(const Captures& words, FailedTask& task) {
    task.index = number_of(words, "task_index").value_or(-1);
    task.count = number_of(words, "task_count").value_or(-1);
    task.type = word_of(words, "task_data");
    if (const auto operation = number_of(words, "task_operation")) {
      task.operation = operation_name(*operation);
      task.type.clear();  // a number
    }
  }

  void keep(const FailedTask& task) {
    const bool known = !task.group.empty() && task.rank >= 0 && !task.operation.empty();
    if (known && seen_.insert({task.process, task.group}).second) {
      tasks_.push_back(task);
    }
  }

  std::vector<FailedTask> tasks_;
  std::map<std::string, FailedTask> current_;  // by process, of one file
  std::set<std::pair<std::string, std::string>> seen_;
  int64_t largest_ = -1;
  int64_t exec_timeout_ = -1;
};

bool is_message(const FailedTask& task) {
  return task.operation.find("Send") != std::string::npos || task.operation.find("Rec") == 0;
}

// `tasks` are of one operation.
std::string describe_late(const std::vector<const FailedTask*>& tasks, int64_t exec_timeout) {
  constexpr double kTogether = 60;  // seconds; ranks that met give up at about the same time
  const double limit = exec_timeout > 0 ? 0.95 * static_cast<double>(exec_timeout) : kTogether;
  const auto [first, last] =
      std::ranges::minmax_element(tasks, {}, [](const FailedTask* task) { return task->time; });
  std::vector<int> late;
  double least = (*last)->time - (*first)->time;
  for (const FailedTask* task : tasks) {
    if (task->time - (*first)->time > limit) {
      late.push_back(task->rank);
      least = std::min(least, task->time - (*first)->time);
    }
  }
  if (late.empty()) {
    return "";
  }
  const FailedTask& waited = **first;
  std::string text = fmt::format(
      "{} plait tasks: ranks [{}] came to {}, number {} of its group, {:.0f} s after rank {}",
      shown_time(waited.time), fmt::join(late, ","), waited.operation, waited.index, least,
      waited.rank);
  text +=
      exec_timeout > 0
          ? fmt::format(", which waits for {} s (HCCL_EXEC_TIMEOUT)", exec_timeout)
          : "; no log tells HCCL_EXEC_TIMEOUT, and if it is longer than that, another rank held "
            "up these too";
  if (waited.group_size > static_cast<int64_t>(tasks.size())) {
    text += fmt::format("; the logs tell of {} of {} ranks", tasks.size(), waited.group_size);
  }
  return text + "\n";
}

}  // namespace

std::vector<FailedTask> read_failed_tasks(const std::vector<ScannedFile>& files) {
  return TaskReader(files).tasks();
}

std::string describe_late_ranks(const std::vector<ScannedFile>& files) {
  const TaskReader reader(files);
  const std::vector<FailedTask> tasks = reader.tasks();
  std::map<std::pair<std::string, int64_t>, std::vector<const FailedTask*>> tasks_of;
  std::set<std::pair<std::string, int64_t>> differing;
  for (const FailedTask& task : tasks) {
    if (task.index < 0 || task.time < 0 || !task.timed_out || is_message(task)) {
      continue;
    }
    std::vector<const FailedTask*>& same = tasks_of[{task.group, task.index}];
    if (!same.empty() && same[0]->operation != task.operation) {
      differing.insert({task.group, task.index});
    }
    same.push_back(&task);
  }
  std::string text;
  for (const auto& [key, same] : tasks_of) {
    if (!differing.contains(key)) {
      text += describe_late(same, reader.exec_timeout());
    }
  }
  return text;
}

}  // namespace plait
