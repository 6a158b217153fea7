#include "plan/environment_rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/suggest.h"
#include "base/text.h"

namespace plait {
namespace {

constexpr const char* kHcclDocs = "hccl docs/zh/user_guide/hccl_env";
constexpr const char* kAllocator = "torch_npu csrc/core/npu/NPUAllocatorConfig.cpp";

struct IntegerRule {
  const char* name;
  int64_t least, most;
  int64_t multiple;
  const char* fitting;
  const char* note;
};
constexpr std::array<IntegerRule, 18> kIntegers = {{
    {"HCCL_CONNECT_TIMEOUT", 120, 7200, 1, "1200",
     "seconds; the default is 120, large jobs use "
     "600 to 1800"},
    {"HCCL_EXEC_TIMEOUT", 0, 2147483647, 1, "1836",
     "seconds; the default is 1836, 0 waits for "
     "ever"},
    {"HCCL_BUFFSIZE", 1, 65536, 1, "200", "MB; each communicator takes twice that"},
    {"HCCL_IF_BASE_PORT", 1024, 65520, 1, "60000", "32 ports from there must be free"},
    {"HCCL_RDMA_TC", 0, 255, 4, "132", "traffic class"},
    {"HCCL_RDMA_SL", 0, 7, 1, "4", "service level"},
    {"HCCL_RDMA_TIMEOUT", 5, 20, 1, "20", "4.096 us * 2^t"},
    {"HCCL_RDMA_RETRY_CNT", 1, 7, 1, "7", "retransmissions"},
    {"HCCL_RDMA_QPS_PER_CONNECTION", 1, 32, 1, "1", "queue pairs"},
    {"HCCL_INTRA_ROCE_ENABLE", 0, 1, 1, "0", "0 or 1"},
    {"HCCL_INTRA_PCIE_ENABLE", 0, 1, 1, "1", "0 or 1"},
    {"HCCL_WHITELIST_DISABLE", 0, 1, 1, "1", "0 or 1"},
    {"HCCL_ENTRY_LOG_ENABLE", 0, 1, 1, "0", "0 or 1"},
    {"HCCL_DIAGNOSE_ENABLE", 0, 1, 1, "0", "0 or 1"},
    {"TASK_QUEUE_ENABLE", 0, 2, 1, "2", "level of the task queue"},
    {"ASCEND_LAUNCH_BLOCKING", 0, 1, 1, "0", "0 or 1"},
    {"ASCEND_GLOBAL_LOG_LEVEL", 0, 4, 1, "3", "0 debug to 4 none"},
    {"ASCEND_SLOG_PRINT_TO_STDOUT", 0, 1, 1, "0", "0 or 1"},
}};

struct ChoiceRule {
  const char* name;
  const char* choices;  // separated by blanks; compared without case
};
constexpr std::array<ChoiceRule, 5> kChoices = {{
    {"HCCL_DETERMINISTIC", "false true strict"},
    {"HCCL_SOCKET_FAMILY", "af_inet af_inet6"},
    {"HCCL_OP_EXPANSION_MODE",
     "host host_ts ai_cpu aiv aicpu_cachedisable aicpu_ts ccu_ms ccu_sched"},
    {"HCCL_INTER_HCCS_DISABLE", "false true"},
    {"CUDA_LAUNCH_BLOCKING", "0 1"},
}};

// Other names that HCCL reads.
constexpr const char* kOtherHccl[] = {"HCCL_ALGO",
                                      "HCCL_IF_IP",
                                      "HCCL_SOCKET_IFNAME",
                                      "HCCL_HOST_SOCKET_PORT_RANGE",
                                      "HCCL_NPU_SOCKET_PORT_RANGE",
                                      "HCCL_MULTI_QP_THRESHOLD",
                                      "HCCL_OP_RETRY_ENABLE",
                                      "HCCL_OP_RETRY_PARAMS",
                                      "HCCL_DEBUG_CONFIG",
                                      "HCCL_DFS_CONFIG",
                                      "HCCL_LOGIC_SUPERPOD_ID",
                                      "HCCL_WHITELIST_FILE",
                                      "HCCL_RDMA_PCIE_DIRECT_POST_NOSTRICT",
                                      "HCCL_ASYNC_ERROR_HANDLING",
                                      "HCCL_DESYNC_DEBUG",
                                      "HCCL_EVENT_TIMEOUT",
                                      "HCCL_TEST_USE_DEVS",
                                      "HCCL_TEST_PROFILING",
                                      "HCCL_TEST_PROFILING_PATH",
                                      "HCCL_BLOCKING_WAIT",
                                      "HCCL_CONCURRENT_ENABLE"};

class EnvironmentChecker {
 public:
  explicit EnvironmentChecker(const ReadJob& read) : read_(read) {}

  std::vector<CheckProblem> run();

 private:
  void add(Severity severity, const std::string& name, std::string rule, std::string suggestion,
           const char* source);
  void check_integer(const IntegerRule& rule);
  void check_choice(const ChoiceRule& rule);
  void check_algorithm();
  void check_allocator();
  void check_devices();
  void check_connections();
  void check_names();
  void check_exports();
  // The value if the script sets it to something known.
  std::optional<std::string> value(const std::string& name) const {
    const auto found = read_.environment.find(name);
    if (found == read_.environment.end() || !found->second.known()) {
      return std::nullopt;
    }
    return found->second.text;
  }

  const ReadJob& read_;
  std::vector<CheckProblem> problems_;
};

void EnvironmentChecker::add(Severity severity, const std::string& name, std::string rule,
                             std::string suggestion, const char* source) {
  CheckProblem problem;
  problem.key = name;
  const auto found = read_.environment.find(name);
  if (found != read_.environment.end()) {
    problem.value = found->second.text.substr(0, 80);
    problem.where = {read_.origin, found->second.line};
  } else {
    problem.value = "not set";
    problem.where = {read_.origin, 0};
  }
  problem.rule = std::move(rule);
  problem.suggestion = std::move(suggestion);
  problem.severity = severity;
  problem.source = source;
  problems_.push_back(std::move(problem));
}

void EnvironmentChecker::check_integer(const IntegerRule& rule) {
  const auto text = value(rule.name);
  if (!text) {
    return;
  }
  const auto number = parse_integer(*text);
  if (number && *number >= rule.least && *number <= rule.most && *number % rule.multiple == 0) {
    return;
  }
  add(Severity::kError, rule.name,
      fmt::format("must be {} to {}{} ({})", rule.least, rule.most,
                  rule.multiple > 1 ? fmt::format(", a multiple of {}", rule.multiple) : "",
                  rule.note),
      fmt::format("{}={}", rule.name, rule.fitting),
      std::string_view(rule.name).starts_with("HCCL") ? kHcclDocs : "torch_npu documentation");
}

void EnvironmentChecker::check_choice(const ChoiceRule& rule) {
  const auto text = value(rule.name);
  if (!text) {
    return;
  }
  const std::vector<std::string> choices = split(rule.choices, ' ');
  if (std::find(choices.begin(), choices.end(), lower(*text)) == choices.end()) {
    add(Severity::kError, rule.name, fmt::format("must be one of: {}", rule.choices),
        fmt::format("{}={}", rule.name, choices[0]), kHcclDocs);
  }
}

// "level0:NA;level1:ring" or "allreduce=level0:NA;level1:ring/allgather=...".
void EnvironmentChecker::check_algorithm() {
  const auto text = value("HCCL_ALGO");
  if (!text) {
    return;
  }
  static constexpr std::string_view kLevel1[] = {"ring", "H-D_R",    "NHR",      "NHR_V1", "NB",
                                                 "AHC",  "pipeline", "pairwise", "NA",     "null"};
  std::string wrong;
  for (const std::string& operation : split(*text, '/')) {
    const size_t equals = operation.find('=');
    for (const std::string& part :
         split(equals == std::string::npos ? operation : operation.substr(equals + 1), ';')) {
      const size_t colon = part.find(':');
      const std::string level = part.substr(0, colon);
      const std::string algorithm = colon == std::string::npos ? "" : part.substr(colon + 1);
      if (level.empty() && algorithm.empty()) {
        continue;
      }
      const bool level_known = level == "level0" || level == "level1" || level == "level2";
      const bool known = level == "level0" ? algorithm == "NA" || algorithm == "fullmesh"
                                           : std::find(std::begin(kLevel1), std::end(kLevel1),
                                                       algorithm) != std::end(kLevel1);
      if ((!level_known || !known) && wrong.empty()) {
        wrong = part;
      }
    }
  }
  if (!wrong.empty()) {
    add(Severity::kError, "HCCL_ALGO",
        fmt::format("'{}' is not in its syntax: level0:NA;level1:ALGORITHM with ring, H-D_R, NHR, "
                    "NB, AHC, pipeline or pairwise (HCCL has no tree)",
                    wrong.substr(0, 40)),
        "leave it out (HCCL chooses), or HCCL_ALGO=\"level0:NA;level1:ring\"", kHcclDocs);
  }
}

// PYTORCH_NPU_ALLOC_CONF=key:value,key:value
void EnvironmentChecker::check_allocator() {
  const char* name = "PYTORCH_NPU_ALLOC_CONF";
  const auto text = value(name);
  if (!text) {
    return;
  }
  static constexpr std::string_view kKeys[] = {"max_split_size_mb",
                                               "garbage_collection_threshold",
                                               "expandable_segments",
                                               "base_addr_aligned_kb",
                                               "pin_memory_expandable_segments",
                                               "page_size",
                                               "multi_stream_lazy_reclaim",
                                               "segment_size_mb"};
  bool expandable = false, split_size = false;
  for (const std::string& part : split(*text, ',')) {
    const size_t colon = part.find(':');
    const std::string key = part.substr(0, colon);
    if (colon == std::string::npos) {
      add(Severity::kError, name,
          fmt::format("'{}' is no key:value pair (a colon, not '=')", part.substr(0, 40)),
          "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True", kAllocator);
      return;
    }
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      add(Severity::kError, name, fmt::format("has no key '{}'", key.substr(0, 40)),
          "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True", kAllocator);
      return;
    }
    expandable =
        expandable || (key == "expandable_segments" && lower(part.substr(colon + 1)) == "true");
    split_size = split_size || key == "max_split_size_mb" || key == "garbage_collection_threshold";
  }
  if (expandable && split_size) {
    add(Severity::kWarning, name,
        "max_split_size_mb and garbage_collection_threshold have no effect with "
        "expandable_segments:True",
        "one of the two", kAllocator);
  }
}

void EnvironmentChecker::check_devices() {
  for (const char* name : {"ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    const auto text = value(name);
    if (!text || text->empty()) {
      continue;
    }
    int64_t previous = -1;
    bool ascending = true, numbers = true;
    for (const std::string& part : split(*text, ',')) {
      const auto number = parse_integer(part);
      numbers = numbers && number.has_value();
      ascending = ascending && number.value_or(-1) > previous;
      previous = number.value_or(-1);
    }
    if (std::string_view(name).starts_with("ASCEND") && (!numbers || !ascending)) {
      add(Severity::kError, name,
          "must list device numbers in ascending order, without blanks: reading stops at the "
          "first that is not",
          "ASCEND_RT_VISIBLE_DEVICES=0,1,2,3", "CANN runtime documentation");
    }
  }
  if (const auto first = value("HCCL_INTRA_ROCE_ENABLE"), second = value("HCCL_INTRA_PCIE_ENABLE");
      first && second && *first == "1" && *second == "1") {
    add(Severity::kError, "HCCL_INTRA_ROCE_ENABLE", "and HCCL_INTRA_PCIE_ENABLE must not both be 1",
        "HCCL_INTRA_ROCE_ENABLE=0", kHcclDocs);
  }
  const auto blocking = value("ASCEND_LAUNCH_BLOCKING");
  if (blocking && *blocking == "1") {
    add(Severity::kWarning, "ASCEND_LAUNCH_BLOCKING",
        "makes every kernel wait for the one before: for debugging only",
        "ASCEND_LAUNCH_BLOCKING=0", "torch_npu documentation");
  }
}

// Megatron-LM orders kernels and collectives of tp and cp by a single queue.
void EnvironmentChecker::check_connections() {
  const TrainJob& job = read_.job;
  const bool megatron = job.stack == Stack::kMegatron || job.stack == Stack::kMindSpeed;
  if (!megatron || read_.kind.find("script") == std::string::npos) {
    return;
  }
  const char* name = "CUDA_DEVICE_MAX_CONNECTIONS";
  const char* source = "Megatron-LM megatron/training/arguments.py, validate_args";
  const bool set = read_.environment.count(name) > 0;
  const auto text = value(name);
  if (job.layout.zero >= 2) {
    if (text && *text == "1") {
      add(Severity::kError, name, "must not be 1 with FSDP", "unset it", source);
    }
    return;
  }
  const bool needed = job.layout.tp > 1 || job.layout.cp > 1;
  if (needed && set && text && *text != "1") {
    add(Severity::kError, name,
        fmt::format("must be 1 with tp = {} and cp = {}: collectives overlap in issue order",
                    job.layout.tp, job.layout.cp),
        "export CUDA_DEVICE_MAX_CONNECTIONS=1", source);
  } else if (needed && !set) {
    add(Severity::kWarning, name,
        "must be 1 with tp or cp above 1 (Hopper and older, and MindSpeed); the script does not "
        "set it",
        "export CUDA_DEVICE_MAX_CONNECTIONS=1", source);
  }
}

void EnvironmentChecker::check_names() {
  std::vector<std::string> known(std::begin(kOtherHccl), std::end(kOtherHccl));
  for (const IntegerRule& rule : kIntegers) {
    known.emplace_back(rule.name);
  }
  for (const ChoiceRule& rule : kChoices) {
    known.emplace_back(rule.name);
  }
  for (const auto& [name, word] : read_.environment) {
    if (name == "ALLOCATOR_FLAGS") {
      add(Severity::kWarning, name, "nothing reads this variable",
          "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True", kAllocator);
    }
    if (name.starts_with("HCCL_") && std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string nearest = nearest_name(name, known);
      add(Severity::kWarning, name, "is no variable of HCCL that plait knows",
          nearest.empty() ? "leave it out" : fmt::format("{}, if that is meant", nearest),
          kHcclDocs);
    }
  }
}

// Set in the script, but not handed on to the program.
void EnvironmentChecker::check_exports() {
  for (const auto& [name, word] : read_.not_exported) {
    const bool meant = name.starts_with("HCCL_") || name.starts_with("PYTORCH_NPU_") ||
                       name == "CUDA_DEVICE_MAX_CONNECTIONS" || name == "TASK_QUEUE_ENABLE" ||
                       name.starts_with("ASCEND_RT_");
    if (meant && read_.environment.count(name) == 0) {
      CheckProblem problem;
      problem.key = name;
      problem.value = word.text.substr(0, 80);
      problem.rule = "is set, but not exported: the program does not see it";
      problem.suggestion = fmt::format("export {}={}", name, word.text.substr(0, 60));
      problem.severity = Severity::kWarning;
      problem.source = "POSIX shell";
      problem.where = {read_.origin, word.line};
      problems_.push_back(std::move(problem));
    }
  }
}

std::vector<CheckProblem> EnvironmentChecker::run() {
  for (const IntegerRule& rule : kIntegers) {
    check_integer(rule);
  }
  for (const ChoiceRule& rule : kChoices) {
    check_choice(rule);
  }
  check_algorithm();
  check_allocator();
  check_devices();
  check_connections();
  check_names();
  check_exports();
  return std::move(problems_);
}

}  // namespace

std::vector<CheckProblem> check_environment(const ReadJob& read) {
  return EnvironmentChecker(read).run();
}

}  // namespace plait
