// Walks the tree of a launch script. Internal to readers/.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/readers/shell_state.h"

namespace plait {

// "NAME=", "NAME+=" or "NAME[...]=" in front of a raw word.
struct ShellAssignment {
  std::string name;
  bool append = false;
  bool indexed = false;
  std::string_view value;
};

std::optional<ShellAssignment> parse_assignment(std::string_view raw);

class ShellRunner {
 public:
  ShellRunner(std::string origin, const ShellOptions& options)
      : state_(std::move(origin), options) {}

  ShellScript run(std::string_view text);

 private:
  ShellStatus run_list(const ShellNodes& nodes);
  ShellStatus run_node(const ShellNode& node);
  ShellStatus run_and_or(const ShellNode& node);
  ShellStatus run_subshell(const ShellNode& node);
  std::map<std::string, ShellVariable> copy_variables(int line);
  ShellStatus run_condition(const ShellNode& list);
  void run_if(const ShellNode& node);
  void run_loop(const ShellNode& node);
  void run_case(const ShellNode& node);
  void run_undecided(const ShellNode& body, const ShellBranch& branch);
  ShellStatus run_simple(const ShellNode& node);
  ShellStatus run_command(std::vector<ShellText> words, ShellCommand command);
  std::optional<ShellStatus> run_builtin(const std::vector<ShellText>& words, int line);
  bool run_declaration(const ShellNode& node, size_t first);
  void run_eval(const std::vector<ShellText>& words, int line);
  bool reads_text(const std::vector<ShellText>& words) const;
  // Where the words of a shell and of the text that it runs stand.
  struct NestedShell {
    size_t shell, text;
  };
  static std::optional<NestedShell> find_nested_shell(const std::vector<ShellText>& words);
  void run_nested_shell(const std::vector<ShellText>& words, const NestedShell& nested, int line);
  void run_text(const ShellText& text, const char* what, int line);
  void set_batch_variables(std::string_view text);
  void keep_held_commands();
  void call_function(const ShellNode& body, const std::vector<ShellText>& words, int line);
  void forget(const std::vector<ShellText>& names, const std::string& command, int line);
  void assign(const RawWord& raw, const ShellAssignment& assignment);
  void keep_heredocs(const ShellNode& node);
  std::map<std::string, ShellWord> exported() const;
  ShellScript finish();
  // Decided by a test: the last one that was read.
  ShellBranch branch(const ShellNode& node, const std::string& what) const {
    return {what, node.line, state_.undecided_reason()};
  }

  ShellState state_;
  std::deque<ShellNodes> trees_;  // of the script and of every eval: functions point into them
  std::map<std::string, const ShellNode*> functions_;
  ShellScript result_;
  std::vector<ShellText> prefix_;  // of the commands of a nested shell: "srun -n 8"
  int nested_ = 0;                 // depth of eval and nested shells
  int depth_ = 0;
  int undecided_ = 0;  // depth of branches that may not run
  bool in_condition_ = false;
  bool stopped_ = false;
};

}  // namespace plait
