#include "plan/readers/batch_header.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "plan/readers/flag_set.h"

namespace plait {
namespace {

constexpr int64_t kMostTasks = 1000000;

struct Count {
  int64_t value = 0;
  int line = 0;
};

// "gpu:a100:8", "gpu:4,lscratch:200", "npu:8", "8": the number of accelerators. With `names_kind`
// only those of the kinds gpu and npu are.
std::string accelerators_of(std::string_view value, bool names_kind) {
  const std::vector<std::string> entries = split(value, ',');
  for (const std::string& entry : entries) {
    const std::string kind = entry.substr(0, entry.find(':'));
    if (kind == "gpu" || kind == "npu" || (entries.size() == 1 && !names_kind)) {
      return entry.substr(entry.rfind(':') + 1);
    }
  }
  return "";
}

// The value of "--nodes=4", "-N 4" or "-N4" if `row` is this option.
std::string_view value_of(std::string_view row, std::string_view option) {
  if (!row.starts_with(option)) {
    return {};
  }
  row.remove_prefix(option.size());
  const bool is_short = !option.starts_with("--");
  if (row.empty() || (!is_short && row[0] != '=' && row[0] != ' ' && row[0] != '\t')) {
    return {};
  }
  row.remove_prefix(std::min(row.find_first_not_of("= \t"), row.size()));
  return row.substr(0, row.find_first_of(" \t#\r"));
}

void read_option(std::string_view row, int line, std::map<std::string, Count>& counts) {
  static constexpr std::pair<std::string_view, const char*> kOptions[] = {
      {"--nodes", "nodes"},  {"-N", "nodes"},           {"--ntasks-per-node", "tasks_per_node"},
      {"--ntasks", "tasks"}, {"-n", "tasks"},           {"--gpus-per-node", "per_node_devices"},
      {"--gres", "devices"}, {"--gpus", "all_devices"}, {"-G", "all_devices"}};
  for (const auto& [option, key] : kOptions) {
    std::string value(value_of(row, option));
    if (value.empty()) {
      continue;
    }
    const std::string name = key;
    value = name == "nodes" ? value.substr(0, value.find('-')) : value;  // "2-4": at least 2
    value = name.ends_with("devices") ? accelerators_of(value, option == "--gres") : value;
    const auto number = parse_integer(value);
    if (number && *number > 0 && *number <= kMostTasks) {
      counts[name] = {*number, line};
    }
  }
}

}  // namespace

std::vector<BatchVariable> read_batch_header(std::string_view text) {
  std::map<std::string, Count> counts;
  int line = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view row = text.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    const size_t first = row.find_first_not_of(" \t\r\xEF\xBB\xBF");
    if (first == std::string_view::npos) {
      continue;
    }
    if (row[first] != '#') {
      break;
    }
    if (row.starts_with("#SBATCH ")) {
      row.remove_prefix(8);
      row.remove_prefix(std::min(row.find_first_not_of(" \t"), row.size()));
      // Several options may stand in a line, up to a comment.
      row = row.substr(0, row.find(" #"));
      while (!row.empty()) {
        read_option(row, line, counts);
        const size_t next = row.find(" -");
        row = next == std::string_view::npos ? std::string_view() : row.substr(next + 1);
      }
    }
  }
  if (counts.empty()) {
    return {};
  }
  Count nodes = counts["nodes"];
  Count tasks = counts["tasks"];
  Count devices = counts["devices"];
  const Count per_node_devices = counts["per_node_devices"];
  devices = devices.value > 0 ? devices : per_node_devices;
  const Count per_node = counts["tasks_per_node"];
  const Count all_devices = counts["all_devices"];
  if (nodes.value == 0) {
    nodes = {1, tasks.line};
    nodes.value = per_node.value > 0 && tasks.value > 0
                      ? (tasks.value + per_node.value - 1) / per_node.value
                      : 1;
  }
  if (tasks.value == 0) {
    tasks = {nodes.value * std::max<int64_t>(per_node.value, 1),
             std::max(nodes.line, per_node.line)};
  }
  if (devices.value == 0 && all_devices.value % nodes.value == 0) {
    devices = {all_devices.value / nodes.value, all_devices.line};
  }
  std::vector<BatchVariable> variables;
  const auto set = [&](const char* name, const Count& count) {
    if (count.value > 0) {
      variables.push_back({name, count.value, count.line});
    }
  };
  set("SLURM_JOB_NUM_NODES", nodes);
  set("SLURM_NNODES", nodes);
  set("SLURM_NTASKS", tasks);
  set("SLURM_NPROCS", tasks);
  set("SLURM_NTASKS_PER_NODE", per_node);
  set("SLURM_GPUS_PER_NODE", per_node_devices);
  set("SLURM_GPUS_ON_NODE", devices);
  return variables;
}

}  // namespace plait
