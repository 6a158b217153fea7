// Environment variables: out of range, contradicting, or read by nothing.
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "doctor/env_checks.h"

namespace plait {
namespace {

struct Range {
  const char* name;
  int64_t least;
  int64_t most;
  int64_t step;
};

// HCCL's documentation of its environment (src/plan/environment_rules.cc has the same for scripts).
constexpr Range kRanges[] = {
    {"HCCL_CONNECT_TIMEOUT", 120, 7200, 1},
    {"HCCL_EXEC_TIMEOUT", 0, 2147483647, 1},
    {"HCCL_BUFFSIZE", 1, 2147483647, 1},
    {"HCCL_IF_BASE_PORT", 1024, 65520, 1},
    {"HCCL_RDMA_TC", 0, 255, 4},
    {"HCCL_RDMA_SL", 0, 7, 1},
    {"HCCL_RDMA_TIMEOUT", 5, 20, 1},
    {"HCCL_RDMA_RETRY_CNT", 1, 7, 1},
    {"HCCL_RDMA_QPS_PER_CONNECTION", 1, 32, 1},
    {"HCCL_INTRA_ROCE_ENABLE", 0, 1, 1},
    {"HCCL_INTRA_PCIE_ENABLE", 0, 1, 1},
    {"HCCL_WHITELIST_DISABLE", 0, 1, 1},
    {"HCCL_ENTRY_LOG_ENABLE", 0, 1, 1},
    {"ASCEND_GLOBAL_LOG_LEVEL", 0, 4, 1},
    {"TASK_QUEUE_ENABLE", 0, 2, 1},
};

// Names of articles that no program reads.
constexpr const char* kFolklore[] = {"ALLOCATOR_FLAGS", "HCCL_TREE_ENABLE",    "HCCL_TIMEOUT",
                                     "HCCL_DEBUG",      "NPU_VISIBLE_DEVICES", "HCCL_P2P_DISABLE",
                                     "HCCL_IB_DISABLE", "HCCL_SOCKET_NTHREADS"};

void check_ranges(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  std::string wrong;
  for (const Range& range : kRanges) {
    const std::string text = variable(facts, range.name);
    if (text.empty()) {
      continue;
    }
    int64_t value = -1;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool fits = error == std::errc() && stop == text.data() + text.size() &&
                      value >= range.least && value <= range.most && value % range.step == 0;
    if (!fits) {
      wrong += fmt::format("; {}={} is not in {}..{}", range.name, text, range.least, range.most);
    }
  }
  checks.push_back({"variable-ranges", wrong.empty() ? CheckState::kOk : CheckState::kBad,
                    wrong.empty() ? "no variable is out of range" : wrong.substr(2),
                    "correct or unset them on every host: HCCL refuses such values"});
}

void check_algorithm(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  const std::string value = variable(facts, "HCCL_ALGO");
  const bool fits = value.empty() || value.find("level") != std::string::npos;
  checks.push_back({"HCCL_ALGO", fits ? CheckState::kOk : CheckState::kBad,
                    value.empty() ? "not set: chosen by HCCL" : "HCCL_ALGO=" + value,
                    "level0:NA;level1:ring (or H-D_R, NHR, NB, AHC, pipeline, pairwise); there is "
                    "no Tree"});
}

void check_names(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  std::string found;
  for (const char* name : kFolklore) {
    found += variable(facts, name).empty() ? "" : std::string(" ") + name;
  }
  checks.push_back({"variable-names", found.empty() ? CheckState::kOk : CheckState::kWarning,
                    found.empty() ? "none that nothing reads" : "read by nothing:" + found,
                    "remove them: they have no effect"});
  const std::string allocator = variable(facts, "PYTORCH_NPU_ALLOC_CONF");
  const bool equals = allocator.find('=') != std::string::npos;
  const bool both = allocator.find("expandable_segments:True") != std::string::npos &&
                    (allocator.find("max_split_size_mb") != std::string::npos ||
                     allocator.find("garbage_collection_threshold") != std::string::npos);
  checks.push_back({"PYTORCH_NPU_ALLOC_CONF", equals || both ? CheckState::kBad : CheckState::kOk,
                    allocator.empty() ? "not set" : allocator,
                    both ? "expandable_segments does not combine with the other keys"
                         : "keys take a colon: max_split_size_mb:N"});
}

void check_paths(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  const std::string home = variable(facts, "ASCEND_HOME_PATH");
  const std::string libraries = variable(facts, "LD_LIBRARY_PATH");
  const bool sourced = !home.empty() && libraries.find("Ascend") != std::string::npos;
  checks.push_back({"set_env", sourced ? CheckState::kOk : CheckState::kWarning,
                    home.empty() ? "ASCEND_HOME_PATH is not set" : "ASCEND_HOME_PATH=" + home,
                    "source set_env.sh of the CANN to be used in this shell"});
  const bool stub = libraries.find("/stub") != std::string::npos ||
                    libraries.find("/devlib") != std::string::npos;
  checks.push_back({"stub-libraries", stub ? CheckState::kBad : CheckState::kOk,
                    stub ? "LD_LIBRARY_PATH names a folder of stub libraries" : "none on the path",
                    "take lib64/stub and devlib off LD_LIBRARY_PATH"});
  const std::string interface = variable(facts, "HCCL_SOCKET_IFNAME");
  const std::string gloo = variable(facts, "GLOO_SOCKET_IFNAME");
  const bool differ =
      !interface.empty() && !gloo.empty() && interface != gloo && interface != "=" + gloo;
  checks.push_back({"interfaces", differ ? CheckState::kWarning : CheckState::kOk,
                    differ ? "HCCL_SOCKET_IFNAME=" + interface + ", GLOO_SOCKET_IFNAME=" + gloo
                           : "HCCL and gloo agree on the interface, or are free to choose",
                    "name the host network's interface in both"});
}

}  // namespace

void check_variables(const EnvFacts& facts, std::vector<EnvCheck>& checks) {
  check_paths(facts, checks);
  check_ranges(facts, checks);
  check_algorithm(facts, checks);
  check_names(facts, checks);
}

}  // namespace plait
