// The host: shared memory, limits, memory, clocks of the CPU, NUMA.
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

#include "base/text.h"
#include "doctor/env_checks.h"

namespace plait {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// The soft limit of a row of /proc/self/limits; < 0: unlimited; -2: not there.
double soft_limit(const EnvFacts& facts, const std::string& row) {
  std::istringstream lines(fact(facts, "/proc/self/limits"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(row)) {
      std::istringstream words(line.substr(row.size()));
      std::string soft;
      words >> soft;
      return soft == "unlimited" ? -1 : std::strtod(soft.c_str(), nullptr);
    }
  }
  return -2;
}

struct LimitCheck {
  const char* name;
  const char* row;
  double least;
  const char* fix;
};

void check_limits(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  static constexpr LimitCheck kLimits[] = {
      {"open-files", "Max open files", 65536, "ulimit -n 65536; --ulimit nofile=65536"},
      {"locked-memory", "Max locked memory", 64 * kGiB, "ulimit -l unlimited; --ulimit memlock=-1"},
      {"processes", "Max processes", 32768, "ulimit -u unlimited; --pids-limit -1"},
      {"stack", "Max stack size", 8.0 * 1024 * 1024, "ulimit -s 8192"},
  };
  for (const LimitCheck& limit : kLimits) {
    const double value = soft_limit(facts, limit.row);
    const bool enough = value == -1 || value >= limit.least;
    checks.push_back({limit.name,
                      value == -2 ? CheckState::kUnknown
                      : enough    ? CheckState::kOk
                                  : CheckState::kWarning,
                      value == -1 ? std::string("unlimited") : fmt::format("{:.0f}", value),
                      limit.fix});
  }
}

void check_memory(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  std::istringstream shm(fact(facts, "shm"));
  std::string word;
  double total = 0;
  double available = 0;
  shm >> word >> total >> word >> available;
  checks.push_back(
      {"shared-memory",
       total == 0             ? CheckState::kUnknown
       : available < 8 * kGiB ? CheckState::kWarning
                              : CheckState::kOk,
       fmt::format("/dev/shm: {:.1f} of {:.1f} GiB free", available / kGiB, total / kGiB),
       "--shm-size=16g or --ipc=host; remove left-over files in /dev/shm"});
  const std::string text = value_of(fact(facts, "/proc/meminfo"), "MemAvailable");
  const double free_gib = std::strtod(text.c_str(), nullptr) / (1024.0 * 1024);
  checks.push_back({"host-memory",
                    text.empty()    ? CheckState::kUnknown
                    : free_gib < 32 ? CheckState::kWarning
                                    : CheckState::kOk,
                    fmt::format("{:.0f} GiB available", free_gib),
                    "loading weights needs about their size in host memory for each host"});
}

// taskset lines from the NUMA node of each card.
void check_numa(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  const std::string folder = "/sys/bus/pci/devices/";
  std::string lines;
  for (const auto& [name, text] : facts) {
    if (!name.starts_with(folder) || !name.ends_with("/numa_node")) {
      continue;
    }
    const std::string node = trimmed(text, " \n");
    const std::string cpus =
        trimmed(fact(facts, "/sys/devices/system/node/node" + node + "/cpulist"), " \n");
    const size_t end = name.find('/', folder.size());
    const std::string device = name.substr(folder.size(), end - folder.size());
    if (node != "-1" && !cpus.empty()) {
      lines += fmt::format("; {} is at node {}: taskset -c {} PROGRAM", device, node, cpus);
    }
  }
  checks.push_back({"numa", lines.empty() ? CheckState::kUnknown : CheckState::kOk,
                    lines.empty() ? "no NUMA node of a card is known" : lines.substr(2),
                    "or let torch_npu do it: CPU_AFFINITY_CONF=1"});
  const std::string governor =
      trimmed(fact(facts, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), " \n");
  checks.push_back({"cpu-governor",
                    governor.empty()            ? CheckState::kUnknown
                    : governor == "performance" ? CheckState::kOk
                                                : CheckState::kWarning,
                    governor.empty() ? "the kernel does not tell" : governor,
                    "cpupower frequency-set -g performance"});
}

}  // namespace

void check_host(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  check_memory(facts, checks);
  check_limits(facts, checks);
  check_numa(facts, checks);
}

}  // namespace plait
