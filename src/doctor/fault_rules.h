// What the doctor knows: rules as data (catalog/fault_rules/*.toml, and folders of the user's).
//   [[rule]]
//   class = "hccl-peer-lost"   what --json prints; several rules may share one
//   role = "cause"             cause: starts a failure; symptom: seen on whoever waits for or uses
//                              what failed; consequence: says nothing of the cause
//   weight = 70                0..100: how much the text itself settles the cause
//   confidence = "high"        at most this, however much agrees
//   cause, fix, verify         sentences; {name} is replaced by a captured word
//   source                     where the facts are from
//   any = ["..."]              patterns (doctor/pattern.h), one of which must be there
//   all = ["...", ["a", "b"]]  and each of these (of a list: one)
//   none = ["..."]             and none of these
//   also = ["..."]             not needed, but their captured words are taken (within 60 lines)
//   scope = "near"             where `all` and `none` look: line, near (60 lines), file, job
//   last_resort = true         a consequence that is told by its own name where nothing else is
//                              found (others are "unknown"): what a type of exception says
//   check = "name"             and this computed condition (doctor/checks.h)
//   explains = ["class"]       causes that this one brings about (symptoms and consequences are
//                              explained by every cause)
// Before the first rule of a file: warnings_are_rumours = true. On a line that its writer calls a
// warning or less, such rules hold as a consequence of little weight: a program that went on after
// "failed to import x" did not fail for it, but if nothing else is there, it is told.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/anchor_set.h"
#include "doctor/pattern.h"

namespace plait {

enum class FaultRole { kConsequence, kSymptom, kCause };
enum class RuleScope { kLine, kNear, kFile, kJob };
enum class Confidence { kLow, kMedium, kHigh };

const char* confidence_name(Confidence confidence);
const char* fault_role_name(FaultRole role);

struct FaultRule {
  std::string name;  // the class
  std::string family;
  FaultRole role = FaultRole::kCause;
  RuleScope scope = RuleScope::kNear;
  Confidence confidence = Confidence::kMedium;
  int weight = 50;
  std::string cause;
  std::string fix;
  std::string verify;
  std::string source;
  std::string check;
  std::vector<int> any;  // indices of RuleSet::patterns
  std::vector<std::vector<int>> all;
  std::vector<int> none;
  std::vector<int> also;
  std::vector<std::string> explains;
  std::shared_ptr<const FaultRule> rumour;  // what holds instead on a warning; null: itself
  bool is_rumour = false;
  bool is_last_resort = false;
};

class RuleSet {
 public:
  // The rules of the program.
  RuleSet();
  // None.
  enum Empty { kNoRules };
  explicit RuleSet(Empty);

  // Adds the *.toml files of a folder, in the order of their names; a rule of the user's counts
  // like one of the program's. Errors: kNotFound, kInvalidArgument naming file and rule.
  void add_folder(const std::string& folder);

  // Must be called after the last add, before scanning.
  void build_search();

  const std::vector<FaultRule>& rules() const { return rules_; }
  const std::vector<Pattern>& patterns() const { return patterns_; }
  const AnchorSet& anchors() const { return *anchors_; }
  // Patterns with the anchor of this index.
  const std::vector<int>& patterns_of(int anchor) const {
    return patterns_of_[static_cast<size_t>(anchor)];
  }
  // Null if no rule has this class.
  const FaultRule* find(std::string_view name) const;
  // Index of a pattern, added if it is new. Errors: as Pattern().
  int add_pattern(const std::string& text);
  // Adds the rules of one file's text; `origin` is its name in errors. Errors: kInvalidArgument.
  void add_text(const std::string& text, const std::string& origin);
  // Of the line that `plait doctor collect` leaves; keeps clock_host and clock_offset.
  int clock_pattern() const { return clock_pattern_; }
  // Of a line that names a communicator; keeps "communicator".
  int communicator_pattern() const { return communicator_pattern_; }
  // Of the lines between which torchrun lists the workers that failed after the first one.
  int torchrun_table_pattern() const { return torchrun_table_pattern_; }
  int torchrun_root_pattern() const { return torchrun_root_pattern_; }
  // Of lines that wait for a device of their own server; keep g_device.
  bool is_peer_device_pattern(int pattern) const {
    return pattern == p2p_wait_pattern_ || pattern == p2p_failed_pattern_;
  }
  // Of lines that HCCL prints of a task that failed (doctor/failed_tasks.h); keep task_tag,
  // task_type, task_group, task_index and more.
  bool is_task_pattern(int pattern) const {
    return pattern >= first_task_pattern_ && pattern <= last_task_pattern_;
  }
  // Of lines of torch.distributed's watchdog; keep wd_sequence, wd_operation, wd_elements, or
  // wd_enqueued and wd_completed. Every rank of a job prints some, so many of a file are kept.
  bool is_watchdog_pattern(int pattern) const {
    return pattern >= first_watchdog_pattern_ && pattern <= last_watchdog_pattern_;
  }

 private:
  std::vector<FaultRule> rules_;
  std::vector<Pattern> patterns_;
  std::vector<std::vector<int>> patterns_of_;
  std::unique_ptr<AnchorSet> anchors_;
  int clock_pattern_ = 0;
  int communicator_pattern_ = 0;
  int torchrun_table_pattern_ = 0;
  int torchrun_root_pattern_ = 0;
  int p2p_wait_pattern_ = 0;
  int p2p_failed_pattern_ = 0;
  int first_task_pattern_ = 0;
  int last_task_pattern_ = 0;
  int first_watchdog_pattern_ = 0;
  int last_watchdog_pattern_ = 0;
};

}  // namespace plait
