#include "base/cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

namespace plait {
namespace {

CpuInfo detect() {
  CpuInfo info;
#if defined(__x86_64__)
  __builtin_cpu_init();
  info.avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  info.avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  info.avx512_bf16 = info.avx512 && __builtin_cpu_supports("avx512bf16") != 0 &&
                     __builtin_cpu_supports("avx512vnni") != 0;
#elif defined(__aarch64__)
  info.neon = true;
#endif
  if (const char* cap = std::getenv("PLAIT_CPU_ISA")) {
    const std::string isa = cap;
    if (isa == "plain") {
      info = CpuInfo{};
    } else if (isa == "avx2") {
      info.avx512 = info.avx512_bf16 = false;
    } else if (isa == "avx512") {
      info.avx512_bf16 = false;
    }
  }
  return info;
}

// First number in a file, or nothing.
bool read_number(const std::string& path, double* value) {
  std::ifstream file(path);
  return static_cast<bool>(file >> *value);
}

double cgroup_core_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (file >> quota >> period && quota != "max" && period > 0) {
    return std::atof(quota.c_str()) / period;
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<std::string> CpuInfo::names() const {
  std::vector<std::string> result;
  if (avx2) {
    result.emplace_back("avx2");
  }
  if (avx512) {
    result.emplace_back("avx512");
  }
  if (avx512_bf16) {
    result.emplace_back("avx512_bf16");
  }
  if (neon) {
    result.emplace_back("neon");
  }
  return result;
}

const CpuInfo& cpu_info() {
  static const CpuInfo info = detect();
  return info;
}

bool cpu_path_enabled(const std::string& name) {
  static const std::string enabled = [] {
    const char* value = std::getenv("PLAIT_CPU_ENABLE");
    return "," + std::string(value == nullptr ? "" : value) + ",";
  }();
  return name != "neon" || enabled.find("," + name + ",") != std::string::npos;
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    cores = CPU_COUNT(&set);
  }
  const double quota = cgroup_core_quota();
  if (std::isfinite(quota)) {
    cores = std::min(cores, static_cast<int>(std::ceil(quota)));
  }
  return std::max(cores, 1);
}

int64_t available_memory_bytes() {
  int64_t available = std::numeric_limits<int64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  std::string line;
  while (std::getline(meminfo, line)) {
    if (line.starts_with("MemAvailable:")) {
      std::istringstream fields(line.substr(13));
      int64_t kib = 0;
      fields >> kib;
      available = kib * 1024;
      break;
    }
  }
  double limit = 0;
  double used = 0;
  if (read_number("/sys/fs/cgroup/memory.max", &limit) &&
      read_number("/sys/fs/cgroup/memory.current", &used)) {
    available = std::min(available, static_cast<int64_t>(limit - used));
  }
  return std::max<int64_t>(available, 0);
}

}  // namespace plait
