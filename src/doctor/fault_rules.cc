#include "doctor/fault_rules.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/toml_full.h"
#include "doctor/checks.h"
#include "doctor/rule_texts.h"

namespace plait {
namespace {

// One [[rule]] table, with errors that name it.
class RuleTable {
 public:
  RuleTable(const toml::table& table, std::string origin)
      : table_(table), origin_(std::move(origin)) {}

  std::string text(const char* key, const char* fallback = "") const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      return fallback;
    }
    if (!node->is_string()) {
      refuse(key, "must be a text");
    }
    return **node->as_string();
  }
  std::string required(const char* key) const {
    std::string value = text(key);
    if (value.empty()) {
      refuse(key, "is missing");
    }
    return value;
  }
  int number(const char* key, int fallback) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      return fallback;
    }
    if (!node->is_integer() || **node->as_integer() < 0 || **node->as_integer() > 100) {
      refuse(key, "must be an integer from 0 to 100");
    }
    return static_cast<int>(**node->as_integer());
  }
  bool flag(const char* key) const {
    const toml::node* node = table_.get(key);
    if (node != nullptr && !node->is_boolean()) {
      refuse(key, "must be true or false");
    }
    return node != nullptr && **node->as_boolean();
  }
  // Items are texts or lists of texts.
  std::vector<std::vector<std::string>> lists(const char* key) const {
    std::vector<std::vector<std::string>> result;
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      return result;
    }
    if (!node->is_array()) {
      refuse(key, "must be a list of patterns");
    }
    for (const toml::node& item : *node->as_array()) {
      result.push_back(item.is_array() ? texts(*item.as_array(), key)
                                       : std::vector<std::string>{one_text(item, key)});
    }
    return result;
  }
  template <typename Value, size_t N>
  Value choice(const char* key, const std::array<std::pair<const char*, Value>, N>& values) const {
    const std::string word = text(key, values[0].first);
    for (const auto& [name, value] : values) {
      if (word == name) {
        return value;
      }
    }
    refuse(key, "is none of the allowed words");
  }
  void check_keys() const {
    static constexpr std::array<std::string_view, 16> kKeys = {
        "class",  "role", "weight", "confidence", "cause", "fix",      "verify", "scope",
        "source", "any",  "all",    "none",       "also",  "explains", "check",  "last_resort"};
    for (const auto& [key, node] : table_) {
      if (std::find(kKeys.begin(), kKeys.end(), key.str()) == kKeys.end()) {
        refuse(std::string(key.str()).c_str(), "is no key of a rule");
      }
    }
  }
  [[noreturn]] void refuse(const char* key, const char* what) const {
    throw_error(ErrorCode::kInvalidArgument, "{}: rule '{}': {} {} (see docs/operations.md)",
                origin_, table_["class"].value_or(std::string("?")), key, what);
  }

 private:
  std::string one_text(const toml::node& node, const char* key) const {
    if (!node.is_string()) {
      refuse(key, "must hold texts");
    }
    return **node.as_string();
  }
  std::vector<std::string> texts(const toml::array& array, const char* key) const {
    std::vector<std::string> result;
    for (const toml::node& item : array) {
      result.push_back(one_text(item, key));
    }
    return result;
  }

  const toml::table& table_;
  std::string origin_;
};

FaultRule read_rule(const RuleTable& table) {
  table.check_keys();
  FaultRule rule;
  rule.name = table.required("class");
  rule.cause = table.required("cause");
  rule.fix = table.required("fix");
  rule.verify = table.text("verify");
  rule.source = table.required("source");
  rule.check = table.text("check");
  rule.weight = table.number("weight", 50);
  rule.role = table.choice<FaultRole>("role", std::array<std::pair<const char*, FaultRole>, 3>{
                                                  {{"cause", FaultRole::kCause},
                                                   {"symptom", FaultRole::kSymptom},
                                                   {"consequence", FaultRole::kConsequence}}});
  rule.scope = table.choice<RuleScope>(
      "scope", std::array<std::pair<const char*, RuleScope>, 4>{{{"near", RuleScope::kNear},
                                                                 {"line", RuleScope::kLine},
                                                                 {"file", RuleScope::kFile},
                                                                 {"job", RuleScope::kJob}}});
  rule.confidence = table.choice<Confidence>(
      "confidence",
      std::array<std::pair<const char*, Confidence>, 3>{{{"medium", Confidence::kMedium},
                                                         {"high", Confidence::kHigh},
                                                         {"low", Confidence::kLow}}});
  for (const std::vector<std::string>& list : table.lists("explains")) {
    rule.explains.insert(rule.explains.end(), list.begin(), list.end());
  }
  rule.is_last_resort = table.flag("last_resort");
  if (rule.is_last_resort && rule.role != FaultRole::kConsequence) {
    table.refuse("last_resort", "is for rules whose role is consequence");
  }
  if (!rule.check.empty() && !is_check(rule.check)) {
    table.refuse("check", "names no condition of the program");
  }
  return rule;
}

FaultRule rumour_of(const FaultRule& rule) {
  FaultRule rumour = rule;
  rumour.role = FaultRole::kConsequence;
  rumour.weight = 5;
  rumour.confidence = Confidence::kLow;
  rumour.explains.clear();
  rumour.is_rumour = true;
  return rumour;
}

}  // namespace

const char* confidence_name(Confidence confidence) {
  static constexpr const char* kNames[] = {"low", "medium", "high"};
  return kNames[static_cast<size_t>(confidence)];
}

const char* fault_role_name(FaultRole role) {
  static constexpr const char* kNames[] = {"consequence", "symptom", "cause"};
  return kNames[static_cast<size_t>(role)];
}

RuleSet::RuleSet(Empty /*none*/) {
  clock_pattern_ =
      add_pattern("plait clock: host {clock_host:h} is {clock_offset:f} s off the collecting host");
  communicator_pattern_ = add_pattern("~identifier[{communicator:l}]");
  torchrun_table_pattern_ = add_pattern("ChildFailedError");
  torchrun_root_pattern_ = add_pattern("Root Cause (first observed failure)");
  first_watchdog_pattern_ = add_pattern(
      "caught collective operation timeout: Work*(SeqNum={wd_sequence:d}, OpType={wd_operation}, "
      "NumelIn={wd_elements:d}, NumelOut={:d}");
  add_pattern(
      "caught collective operation timeout: Work*(SeqNum={wd_sequence:d}, OpType={wd_operation}, "
      "Timeout(ms)=");
  last_watchdog_pattern_ =
      add_pattern("last enqueued*work: {wd_enqueued:f}, last completed*work: {wd_completed:f}");
  p2p_wait_pattern_ = add_pattern("connected p2p timeout*remote physic id:{g_device:d}");
  p2p_failed_pattern_ = add_pattern("Wait Enable P2P Failed*dst devicePhyId[{g_device:d}]");
  // What a process tells of itself when it joins a communicator (doctor/processes.h).
  add_pattern(
      "SetupAgent rankNum[{setup_size:d}], rank[{setup_rank:d}]*server[{setup_server:l}]*"
      "phydevId[{setup_device:d}]");
  add_pattern(
      "Entry-HcclCommInitRootInfo*ranks[{setup_size:d}], rank[{setup_rank:d}]*"
      "deviceLogicId[{setup_device:d}]");
  add_pattern(
      "hcclCommInitInfo:*rank[{setup_rank:d}], totalRanks[{setup_size:d}]*"
      "logicDevId[{setup_device:d}]");
  add_pattern("HCCL_EXEC_TIMEOUT set by*to [{exec_timeout:d}");
  add_pattern("HCCL_EXEC_TIMEOUT={exec_timeout:d}");
  first_task_pattern_ = add_pattern("base information*tag[{task_tag:l}]");
  add_pattern("group:[{task_group:l}]*rankSize[{task_group_size:d}], rankId[");
  add_pattern(
      "opData information is timeStamp:[{task_stamp:l}]*index[{task_index:d}], "
      "count[{task_count:d}]*dataType[{task_data:l}]");
  add_pattern("base information is streamId:*type:{task_type}*localRank:");
  last_task_pattern_ = add_pattern(
      "opData information is tag:*group:{task_group}, opIndex:{task_index:d}, "
      "count:{task_count:d}, dataType:{task_data:d}, opType:{task_operation:d}");
}

RuleSet::RuleSet() : RuleSet(kNoRules) {
  for (const RuleText& file : rule_texts()) {
    add_text(std::string(file.text), file.name);
  }
}

int RuleSet::add_pattern(const std::string& text) {
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (patterns_[i].text() == text) {
      return static_cast<int>(i);
    }
  }
  patterns_.emplace_back(text);
  return static_cast<int>(patterns_.size()) - 1;
}

void RuleSet::add_text(const std::string& text, const std::string& origin) {
  const toml::table file = parse_toml(text, origin, ErrorCode::kInvalidArgument);
  const toml::array* rules = file["rule"].as_array();
  if (rules == nullptr) {
    throw_error(ErrorCode::kInvalidArgument, "{}: no [[rule]] in it (see docs/operations.md)",
                origin);
  }
  for (const toml::node& node : *rules) {
    if (!node.is_table()) {
      throw_error(ErrorCode::kInvalidArgument, "{}: rule must be a list of tables", origin);
    }
    const RuleTable table(*node.as_table(), origin);
    FaultRule rule = read_rule(table);
    rule.family = std::filesystem::path(origin).stem().string();
    const auto indices = [&](const char* key) {
      std::vector<std::vector<int>> result;
      for (const std::vector<std::string>& list : table.lists(key)) {
        result.emplace_back();
        for (const std::string& pattern : list) {
          result.back().push_back(add_pattern(pattern));
        }
      }
      return result;
    };
    for (const std::vector<int>& list : indices("any")) {
      rule.any.insert(rule.any.end(), list.begin(), list.end());
    }
    for (const std::vector<int>& list : indices("none")) {
      rule.none.insert(rule.none.end(), list.begin(), list.end());
    }
    for (const std::vector<int>& list : indices("also")) {
      rule.also.insert(rule.also.end(), list.begin(), list.end());
    }
    rule.all = indices("all");
    const bool is_told = rule.role == FaultRole::kCause || rule.is_last_resort;
    if (file["warnings_are_rumours"].value_or(false) && is_told) {
      rule.rumour = std::make_shared<FaultRule>(rumour_of(rule));
    }
    rules_.push_back(std::move(rule));
  }
}

void RuleSet::add_folder(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") {
      paths.push_back(entry.path().string());
    }
  }
  if (error || paths.empty()) {
    throw_error(ErrorCode::kNotFound, "rules={}: must be a folder with *.toml files of rules",
                folder);
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    add_text(read_file(path), path);
  }
}

void RuleSet::build_search() {
  std::vector<std::string> anchors;
  patterns_of_.clear();
  for (size_t i = 0; i < patterns_.size(); ++i) {
    const std::string& anchor = patterns_[i].anchor();
    const auto found = std::find(anchors.begin(), anchors.end(), anchor);
    const size_t index = static_cast<size_t>(found - anchors.begin());
    if (found == anchors.end()) {
      anchors.push_back(anchor);
      patterns_of_.emplace_back();
    }
    patterns_of_[index].push_back(static_cast<int>(i));
  }
  anchors_ = std::make_unique<AnchorSet>(anchors);
}

const FaultRule* RuleSet::find(std::string_view name) const {
  const auto found = std::find_if(rules_.begin(), rules_.end(),
                                  [&](const FaultRule& rule) { return rule.name == name; });
  return found == rules_.end() ? nullptr : &*found;
}

}  // namespace plait
