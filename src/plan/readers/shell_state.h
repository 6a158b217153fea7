// What the interpreter of launch scripts knows while it reads one. Internal to readers/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/readers/shell.h"
#include "plan/readers/shell_syntax.h"

namespace plait {

// Characters, and where each stands: a line, or -1 - i for a part whose value is unknown for reason
// i.
struct ShellText {
  std::string chars;
  std::vector<int32_t> origins;

  void add(char c, int32_t origin) {
    chars += c;
    origins.push_back(origin);
  }
  void add(const ShellText& other) {
    chars += other.chars;
    origins.insert(origins.end(), other.origins.begin(), other.origins.end());
  }
  bool known() const;
};

struct ShellVariable {
  std::vector<ShellText> items;  // one if it is no array
  bool exported = false;
  int line = 0;  // of its last assignment
};

// A part of the script that may not run.
struct ShellBranch {
  std::string what;  // "if", "a for loop"
  int line = 0;
  std::string reason;  // why its condition is not known; empty: nothing says
};

struct ShellUnknown {
  std::string reason;
  int line = 0;
  bool outside = false;  // a variable that the script never sets, or an argument: may be empty
};

class ShellState {
 public:
  ShellState(std::string origin, const ShellOptions& options);

  const ShellVariable* find(const std::string& name) const;
  // Ignored for a name that the caller has set.
  void assign(const std::string& name, std::vector<ShellText> items, int line = 0);
  void mark_exported(const std::string& name);
  void unset(const std::string& name) { variables_.erase(name); }
  bool is_pinned(const std::string& name) const { return settings_.count(name) > 0; }

  const std::map<std::string, ShellVariable>& variables() const { return variables_; }
  void set_variables(std::map<std::string, ShellVariable> variables) {
    variables_ = std::move(variables);
  }
  // After a branch that may not run: what it changed keeps its value in `before`, or is unknown.
  void restore(std::map<std::string, ShellVariable> before, const ShellBranch& branch);

  // A part whose value is not known, shown as `shown`.
  ShellText make_unknown(std::string_view shown, ShellUnknown unknown);
  const ShellUnknown& unknown(int32_t origin) const {
    return unknowns_[static_cast<size_t>(-1 - origin)];
  }
  // The first unknown part; null if there is none.
  const ShellUnknown* first_unknown(const ShellText& text) const;
  // True if all of a non-empty text is unknown because it is set outside of the script.
  bool only_outside(const ShellText& text) const;
  ShellWord to_word(const ShellText& text) const;

  // Why the last test could not be decided.
  void set_undecided(const ShellText& text);
  void forget_undecided() { undecided_reason_.clear(); }
  const std::string& undecided_reason() const { return undecided_reason_; }

  // Arguments of the script, or of the function that is being read.
  std::optional<ShellText> argument(int index) const;
  bool in_function() const { return !arguments_.empty(); }
  std::vector<std::vector<ShellText>>& arguments() { return arguments_; }
  const std::vector<ShellText>& given_arguments() const { return given_; }

  void note(std::vector<Note>& list, std::string text, int line);
  std::vector<Note> not_evaluated;
  std::vector<Note> assumptions;

  // Counts work against the bounds. Errors: kInvalidArgument.
  void charge(size_t characters, int line);
  [[noreturn]] void fail(int line, const std::string& what) const;
  const std::string& origin() const { return origin_; }

 private:
  std::string origin_;
  std::map<std::string, std::string> settings_;
  std::map<std::string, ShellVariable> variables_;
  std::vector<std::vector<ShellText>> arguments_;  // of nested function calls
  std::vector<ShellText> given_;
  std::vector<ShellUnknown> unknowns_;
  std::set<std::string> noted_;
  std::string undecided_reason_;
  size_t characters_ = 0;
  int64_t steps_ = 0;
};

ShellText known_text(std::string_view chars, int line);

// Fields of a word in a command (split at blanks), or its one text in an assignment.
std::vector<ShellText> expand_fields(ShellState& state, const RawWord& word);
ShellText expand_text(ShellState& state, const RawWord& word);
// The body of a here-document: expanded as within double quotes.
ShellText expand_heredoc(ShellState& state, const RawWord& body);

// The value of an arithmetic expression; absent if it depends on what is unknown, or assigns.
std::optional<int64_t> evaluate_arithmetic(ShellState& state, const RawWord& expression);

enum class ShellStatus : uint8_t { kTrue, kFalse, kUnknown };
// [ ... ] (without the brackets) or [[ ... ]].
ShellStatus evaluate_test(ShellState& state, const std::vector<ShellText>& words);

// Shell patterns: * ? [...].
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace plait
