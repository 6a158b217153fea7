#include "doctor/env_facts.h"

#include <glob.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "doctor/run_command.h"

namespace plait {
namespace {

constexpr const char* kFiles[] = {
    "/usr/local/Ascend/driver/version.info",
    "/usr/local/Ascend/firmware/version.info",
    "/usr/local/Ascend/ascend-toolkit/latest/version.cfg",
    "/usr/local/Ascend/cann/version.cfg",
    "/usr/local/Ascend/nnal/atb/latest/version.info",
    "/etc/hccn.conf",
    "/etc/hccl_rootinfo.json",
    "/proc/meminfo",
    "/proc/self/limits",
    "/proc/self/status",
    "/proc/net/tcp",
    "/proc/net/tcp6",
    "/proc/sys/net/ipv4/ip_local_reserved_ports",
    "/proc/sys/net/ipv4/ip_local_port_range",
    "/proc/sys/kernel/threads-max",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/etc/hosts",
};

constexpr size_t kMaxFact = size_t{4} << 20;

std::string read_small(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  std::array<char, 65536> buffer;
  while (in && text.size() < kMaxFact) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    text.append(buffer.data(), static_cast<size_t>(in.gcount()));
  }
  return text;
}

std::vector<std::string> matching(const char* pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern, 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

void add_devices(EnvFacts& facts) {
  std::string text;
  for (const char* pattern : {"/dev/davinci*", "/dev/devmm_svm", "/dev/hisi_hdc"}) {
    for (const std::string& path : matching(pattern)) {
      struct stat info = {};
      if (stat(path.c_str(), &info) == 0) {
        const bool usable = access(path.c_str(), R_OK | W_OK) == 0;
        text += fmt::format("{} {:o} uid {} gid {} {}\n", path, info.st_mode & 07777U, info.st_uid,
                            info.st_gid, usable ? "usable" : "refused");
      }
    }
  }
  facts["devices"] = text;
}

void add_shm(EnvFacts& facts) {
  struct statvfs info = {};
  if (statvfs("/dev/shm", &info) == 0) {
    facts["shm"] = fmt::format("total {} free {}\n", info.f_blocks * info.f_frsize,
                               info.f_bavail * info.f_frsize);
  }
}

// Names and versions from the folders that pip leaves: no Python is run.
void add_python_packages(EnvFacts& facts) {
  static constexpr const char* kPlaces[] = {
      "/usr/local/lib/python3*/dist-packages/",          "/usr/local/lib/python3*/site-packages/",
      "/usr/local/python3*/lib/python3*/site-packages/", "/usr/lib/python3*/site-packages/",
      "/root/miniconda3/lib/python3*/site-packages/",    "/opt/conda/lib/python3*/site-packages/"};
  static constexpr const char* kNames[] = {"torch",        "torch_npu", "vllm",     "vllm_ascend",
                                           "transformers", "numpy",     "mindspore"};
  std::string text;
  for (const char* place : kPlaces) {
    for (const char* name : kNames) {
      const std::string pattern = std::string(place) + name + "-*.dist-info";
      for (const std::string& path : matching(pattern.c_str())) {
        std::string base = std::filesystem::path(path).stem().string();
        text += std::string(name) + " " + base.substr(std::string(name).size() + 1) + "\n";
      }
    }
  }
  facts["python packages"] = text;
}

void add_environment(EnvFacts& facts) {
  static constexpr const char* kPrefixes[] = {"HCCL_",
                                              "ASCEND_",
                                              "PYTORCH_NPU_",
                                              "GLOO_",
                                              "TP_SOCKET",
                                              "MASTER_",
                                              "RANK",
                                              "WORLD_SIZE",
                                              "LOCAL_RANK",
                                              "LD_LIBRARY_PATH=",
                                              "VLLM_USE_",
                                              "ATB_",
                                              "ACL_",
                                              "TASK_QUEUE_ENABLE",
                                              "CPU_AFFINITY_CONF",
                                              "OMP_NUM_THREADS",
                                              "INF_NAN",
                                              "MULTI_STREAM_MEMORY_REUSE",
                                              "COMBINED_ENABLE",
                                              "NPU_",
                                              "LCCL_",
                                              "CANN_",
                                              "ALLOCATOR_FLAGS",
                                              "MINDSPORE_HCCL"};
  std::istringstream all(read_small("/proc/self/environ"));
  std::string text;
  for (std::string item; std::getline(all, item, '\0');) {
    for (const char* prefix : kPrefixes) {
      if (item.starts_with(prefix)) {
        text += item + "\n";
        break;
      }
    }
  }
  facts["environment"] = text;
}

void add_command(EnvFacts& facts, const std::vector<std::string>& words) {
  const CommandResult result = run_command(words, 10);
  if (!result.started) {
    return;
  }
  std::string name = words[0];
  for (size_t i = 1; i < words.size(); ++i) {
    name += " " + words[i];
  }
  facts[name] = result.timed_out ? "timed out\n" : result.output;
}

// NPU numbers of the table of `npu-smi info`.
std::set<std::string> npu_numbers(const std::string& table) {
  std::set<std::string> numbers;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string bar;
    std::string number;
    std::string name;
    words >> bar >> number >> name;
    const bool row = bar == "|" && !number.empty() && number.size() < 6 &&
                     number.find_first_not_of("0123456789") == std::string::npos &&
                     (name.starts_with("9") || name.starts_with("3") || name.starts_with("Ascend"));
    if (row) {
      numbers.insert(number);
    }
  }
  return numbers;
}

void add_npu_commands(EnvFacts& facts) {
  add_command(facts, {"npu-smi", "info"});
  for (const std::string& npu : npu_numbers(fact(facts, "npu-smi info"))) {
    for (const char* topic : {"health", "ecc", "temp"}) {
      add_command(facts, {"npu-smi", "info", "-t", topic, "-i", npu});
    }
    for (const char* topic : {"-link", "-ip", "-tls", "-optical", "-net_health"}) {
      add_command(facts, {"hccn_tool", "-i", npu, topic, "-g"});
    }
  }
}

void add_numa(EnvFacts& facts) {
  for (const std::string& path : matching("/sys/bus/pci/devices/*/vendor")) {
    if (read_small(path).starts_with("0x19e5")) {
      const std::string folder = std::filesystem::path(path).parent_path().string();
      facts[folder + "/numa_node"] = read_small(folder + "/numa_node");
    }
  }
  for (const std::string& path : matching("/sys/devices/system/node/node*/cpulist")) {
    facts[path] = read_small(path);
  }
}

}  // namespace

const std::string& fact(const EnvFacts& facts, const std::string& name) {
  static const std::string none;
  const auto found = facts.find(name);
  return found == facts.end() ? none : found->second;
}

EnvFacts gather_env() {
  EnvFacts facts;
  for (const char* path : kFiles) {
    std::string text = read_small(path);
    if (!text.empty()) {
      facts[path] = std::move(text);
    }
  }
  add_devices(facts);
  add_shm(facts);
  add_python_packages(facts);
  add_environment(facts);
  add_npu_commands(facts);
  add_numa(facts);
  const std::string& environment = fact(facts, "environment");
  const size_t table = environment.find("RANK_TABLE_FILE=");
  if (table != std::string::npos) {
    const size_t begin = table + 16;
    facts["rank table"] =
        read_small(environment.substr(begin, environment.find('\n', begin) - begin));
  }
  return facts;
}

void write_env(const EnvFacts& facts, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string index;
  int number = 0;
  for (const auto& [name, text] : facts) {
    const std::string file = fmt::format("{:03}.txt", ++number);
    write_file_atomic(folder + "/" + file, text);
    index += file + " " + name + "\n";
  }
  write_file_atomic(folder + "/index.txt", index);
}

namespace {

// File and fact of a line of the index, "FILE NAME"; nothing if it is no such line.
std::optional<std::pair<std::string, std::string>> index_entry(const std::string& line) {
  const size_t blank = line.find(' ');
  if (blank == std::string::npos || line.find('/') < blank) {
    return std::nullopt;
  }
  return std::make_pair(line.substr(0, blank), line.substr(blank + 1));
}

}  // namespace

EnvFacts env_of_texts(const std::map<std::string, std::string>& texts) {
  EnvFacts facts;
  std::istringstream index(fact(texts, "index.txt"));
  for (std::string line; std::getline(index, line);) {
    const auto entry = index_entry(line);
    const auto text = entry ? texts.find(entry->first) : texts.end();
    if (text != texts.end()) {
      facts[entry->second] = text->second;
    }
  }
  return facts;
}

EnvFacts read_env(const std::string& folder) {
  EnvFacts facts;
  std::istringstream index(read_file(folder + "/index.txt"));
  for (std::string line; std::getline(index, line);) {
    const auto entry = index_entry(line);
    if (!entry) {
      throw_error(ErrorCode::kCorruptData, "{}/index.txt: '{}' is not 'FILE NAME'", folder, line);
    }
    facts[entry->second] = read_file(folder + "/" + entry->first);
  }
  return facts;
}

}  // namespace plait
