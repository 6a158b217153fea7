// Simple commands of launch scripts: assignments, builtins, functions, and what would be run.
#include <algorithm>
#include <cctype>
#include <utility>

#include "plan/readers/flag_set.h"
#include "plan/readers/shell_runner.h"

namespace plait {
namespace {

constexpr size_t kMaxCommands = 10000;

}  // namespace

std::optional<ShellAssignment> parse_assignment(std::string_view raw) {
  size_t end = 0;
  while (end < raw.size() &&
         (std::isalnum(static_cast<unsigned char>(raw[end])) != 0 || raw[end] == '_')) {
    ++end;
  }
  if (end == 0 || std::isdigit(static_cast<unsigned char>(raw[0])) != 0) {
    return std::nullopt;
  }
  ShellAssignment assignment;
  assignment.name = std::string(raw.substr(0, end));
  if (end < raw.size() && raw[end] == '[') {
    const size_t close = raw.find(']', end);
    if (close == std::string_view::npos) {
      return std::nullopt;
    }
    assignment.indexed = true;
    end = close + 1;
  }
  if (raw.substr(end, 2) == "+=") {
    assignment.append = true;
    ++end;
  }
  if (raw.substr(end, 1) != "=") {
    return std::nullopt;
  }
  assignment.value = raw.substr(end + 1);
  return assignment;
}

void ShellRunner::assign(const RawWord& raw, const ShellAssignment& assignment) {
  const std::string& name = assignment.name;
  const int line =
      raw.line + static_cast<int>(
                     std::count(raw.text.begin(), raw.text.end() - assignment.value.size(), '\n'));
  const RawWord value{std::string(assignment.value), line};
  const ShellVariable* old = state_.find(name);
  std::vector<ShellText> items;
  if (assignment.append && old != nullptr) {
    items = old->items;
    for (const ShellText& item : items) {
      state_.charge(item.chars.size(), line);
    }
  }
  if (assignment.indexed) {
    items = {state_.make_unknown("$" + name,
                                 {fmt::format("{}[...]= is not evaluated", name), line, false})};
    state_.note(state_.not_evaluated, fmt::format("{}[...]= is not evaluated", name), line);
  } else if (value.text.starts_with('(') && value.text.ends_with(')')) {
    const RawWord inside{value.text.substr(1, value.text.size() - 2), line};
    for (const RawWord& word : split_array_words(inside, state_.origin())) {
      for (ShellText& field : expand_fields(state_, word)) {
        items.push_back(std::move(field));
      }
    }
  } else {
    ShellText text = expand_text(state_, value);
    if (items.empty()) {
      items.push_back(std::move(text));
    } else {
      items[0].add(text);
    }
  }
  state_.assign(name, std::move(items), line);
}

// export, declare, local, readonly, typeset: assignments in raw words are not split.
bool ShellRunner::run_declaration(const ShellNode& node, size_t first) {
  static constexpr std::string_view kNames[] = {"export", "declare", "local", "readonly",
                                                "typeset"};
  const std::string& command = node.words[first].text;
  if (std::find(std::begin(kNames), std::end(kNames), command) == std::end(kNames)) {
    return false;
  }
  bool exports = command == "export";
  for (size_t i = first + 1; i < node.words.size(); ++i) {
    const RawWord& word = node.words[i];
    if (word.text.starts_with('-')) {
      exports = exports || word.text.find('x') != std::string::npos;
      continue;
    }
    if (const auto assignment = parse_assignment(word.text)) {
      assign(word, *assignment);
      if (exports) {
        state_.mark_exported(assignment->name);
      }
      continue;
    }
    for (const ShellText& field : expand_fields(state_, word)) {
      if (const auto assignment = parse_assignment(field.chars); assignment && field.known()) {
        state_.assign(assignment->name, {known_text(assignment->value, word.line)});
        state_.mark_exported(assignment->name);
      } else if (exports) {
        state_.mark_exported(field.chars);
      }
    }
  }
  return true;
}

ShellStatus ShellRunner::run_simple(const ShellNode& node) {
  size_t first = 0;
  while (first < node.words.size() && parse_assignment(node.words[first].text)) {
    ++first;
  }
  if (first == node.words.size()) {
    for (const RawWord& word : node.words) {
      assign(word, *parse_assignment(word.text));
    }
    return ShellStatus::kTrue;
  }
  if (run_declaration(node, first)) {
    return ShellStatus::kTrue;
  }
  ShellCommand command;
  command.line = node.line;
  state_.charge(state_.variables().size() / 4, node.line);
  command.environment = exported();
  for (const auto& [name, word] : command.environment) {
    state_.charge(word.text.size() / 8, node.line);
  }
  std::vector<std::pair<std::string, ShellText>> own;
  for (size_t i = 0; i < first; ++i) {
    const auto assignment = parse_assignment(node.words[i].text);
    const RawWord value{std::string(assignment->value), node.words[i].line};
    ShellWord& word = command.environment[assignment->name];
    own.emplace_back(assignment->name, expand_text(state_, value));
    word = state_.to_word(own.back().second);
    word.line = word.line > 0 ? word.line : value.line;
  }
  std::vector<ShellText> words;
  for (size_t i = first; i < node.words.size(); ++i) {
    for (ShellText& field : expand_fields(state_, node.words[i])) {
      words.push_back(std::move(field));
    }
  }
  if (words.empty()) {
    return ShellStatus::kTrue;
  }
  if (own.empty() || !reads_text(words)) {
    return run_command(std::move(words), std::move(command));
  }
  // "A=1 bash -c TEXT": A holds for the text alone.
  std::map<std::string, ShellVariable> before = copy_variables(node.line);
  for (const auto& [name, value] : own) {
    state_.assign(name, {value}, node.line);
    state_.mark_exported(name);
  }
  const ShellStatus status = run_command(std::move(words), std::move(command));
  state_.set_variables(std::move(before));
  return status;
}

// True for what runs commands of its own, and not a program.
bool ShellRunner::reads_text(const std::vector<ShellText>& words) const {
  return functions_.contains(words[0].chars) || find_nested_shell(words).has_value();
}

ShellStatus ShellRunner::run_command(std::vector<ShellText> words, ShellCommand command) {
  const std::string name = words[0].known() ? words[0].chars : "";
  if (const auto function = functions_.find(name); function != functions_.end()) {
    call_function(*function->second, words, command.line);
    return in_condition_ ? ShellStatus::kUnknown : ShellStatus::kTrue;
  }
  if (const auto status = run_builtin(words, command.line)) {
    return *status;
  }
  if (const auto nested = find_nested_shell(words)) {
    run_nested_shell(words, *nested, command.line);
    return in_condition_ ? ShellStatus::kUnknown : ShellStatus::kTrue;
  }
  if (result_.commands.size() >= kMaxCommands) {
    state_.fail(command.line, fmt::format("more than {} commands", kMaxCommands));
  }
  state_.charge(prefix_.size() * 16, command.line);
  for (const ShellText& word : prefix_) {
    command.words.push_back(state_.to_word(word));
  }
  for (const ShellText& word : words) {
    command.words.push_back(state_.to_word(word));
  }
  result_.commands.push_back(std::move(command));
  return in_condition_ ? ShellStatus::kUnknown : ShellStatus::kTrue;
}

std::optional<ShellStatus> ShellRunner::run_builtin(const std::vector<ShellText>& words, int line) {
  const std::string name = words[0].known() ? words[0].chars : "";
  const std::vector<ShellText> rest(words.begin() + 1, words.end());
  if (name == "[" || name == "test") {
    std::vector<ShellText> inside = rest;
    if (name == "[" && !inside.empty() && inside.back().chars == "]") {
      inside.pop_back();
    }
    return evaluate_test(state_, inside);
  }
  if (name == "true" || name == ":") {
    return ShellStatus::kTrue;
  }
  if (name == "false") {
    return ShellStatus::kFalse;
  }
  const int64_t status = rest.empty() ? 0 : parse_integer(rest[0].chars).value_or(0);
  if (name == "exit" && undecided_ == 0 && status != 0) {
    // A guard: whoever starts the script gives it what it asks for.
    state_.note(state_.assumptions,
                fmt::format("the script ends here (exit {}) as it stands: read on as if what it "
                            "asks for were there",
                            status),
                line);
    return ShellStatus::kTrue;
  }
  if (name == "exit" || name == "return") {
    stopped_ = true;  // a branch that may not run clears it
    return ShellStatus::kTrue;
  }
  if (name == "unset") {
    for (const ShellText& word : rest) {
      state_.unset(word.chars);
    }
    return ShellStatus::kTrue;
  }
  if (name == "eval") {
    run_eval(rest, line);
    return in_condition_ ? ShellStatus::kUnknown : ShellStatus::kTrue;
  }
  if (name == "source" || name == ".") {
    state_.note(state_.not_evaluated,
                fmt::format("{} {}: the file is not read; what it sets is unknown", name,
                            rest.empty() ? "" : rest[0].chars.substr(0, 60)),
                line);
    return in_condition_ ? ShellStatus::kUnknown : ShellStatus::kTrue;
  }
  if (name == "read" || name == "mapfile" || name == "readarray" || name == "getopts" ||
      name == "let") {
    forget(rest, name, line);
    return in_condition_ ? ShellStatus::kUnknown : ShellStatus::kTrue;
  }
  if (name == "set" || name == "shift" || name == "shopt" || name == "ulimit" || name == "trap") {
    return ShellStatus::kTrue;
  }
  return std::nullopt;
}

// The names in `words` become unknown: something that is not evaluated sets them.
void ShellRunner::forget(const std::vector<ShellText>& words, const std::string& command,
                         int line) {
  state_.note(state_.not_evaluated, fmt::format("{} is not evaluated", command), line);
  for (const ShellText& word : words) {
    std::string name;
    for (const char c : word.chars + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
        name += c;
        continue;
      }
      if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0) {
        const std::string reason =
            fmt::format("{} is set by {}, which is not evaluated", name, command);
        state_.assign(name, {state_.make_unknown("$" + name, {reason, line, false})});
      }
      name.clear();
    }
  }
}

void ShellRunner::call_function(const ShellNode& body, const std::vector<ShellText>& words,
                                int line) {
  state_.charge(words.size(), line);
  state_.arguments().emplace_back(words.begin() + 1, words.end());
  run_node(body);
  state_.arguments().pop_back();
  if (undecided_ == 0) {
    stopped_ = false;  // return ends the function only
  }
}

void ShellRunner::keep_heredocs(const ShellNode& node) {
  for (const Redirect& redirect : node.redirects) {
    if (redirect.op != "<<" && redirect.op != "<<-") {
      continue;
    }
    for (const Redirect& other : node.redirects) {
      if (other.op == ">" || other.op == ">>") {
        const std::string path = expand_text(state_, other.target).chars;
        const ShellText body = redirect.body_quoted
                                   ? known_text(redirect.body.text, redirect.body.line)
                                   : expand_heredoc(state_, redirect.body);
        result_.files[path] = state_.to_word(body);
        result_.files[path].line = redirect.body.line;
      }
    }
  }
}

}  // namespace plait
