#include "plan/readers/shell.h"

#include <algorithm>
#include <utility>

#include "plan/readers/batch_header.h"
#include "plan/readers/shell_runner.h"

namespace plait {
namespace {

constexpr int kDeepestBlock = 32;

}  // namespace

ShellScript ShellRunner::run(std::string_view text) {
  set_batch_variables(text);
  trees_.push_back(parse_shell(text, state_.origin()));
  run_list(trees_.back());
  return finish();
}

void ShellRunner::set_batch_variables(std::string_view text) {
  const std::vector<BatchVariable> variables = read_batch_header(text);
  if (!variables.empty()) {
    // Scripts that ask whether they are in a job: this one is.
    for (const char* name : {"SLURM_JOB_ID", "SLURM_JOBID"}) {
      state_.assign(name, {known_text("1", 0)});
      state_.mark_exported(name);
    }
  }
  for (const BatchVariable& variable : variables) {
    if (!state_.is_pinned(variable.name)) {
      const std::string value = std::to_string(variable.value);
      state_.assign(variable.name, {known_text(value, variable.line)}, variable.line);
      state_.mark_exported(variable.name);
    }
  }
}

ShellStatus ShellRunner::run_list(const ShellNodes& nodes) {
  ShellStatus status = ShellStatus::kTrue;
  for (const auto& node : nodes) {
    if (stopped_) {
      break;
    }
    status = run_node(*node);
  }
  return status;
}

ShellStatus ShellRunner::run_node(const ShellNode& node) {
  state_.charge(1, node.line);
  if (++depth_ > kDeepestBlock) {
    state_.fail(node.line, "functions and blocks are nested too deeply to be read");
  }
  ShellStatus status = ShellStatus::kTrue;
  using Kind = ShellNode::Kind;
  switch (node.kind) {
    case Kind::kSimple:
      status = run_simple(node);
      break;
    case Kind::kTest: {
      std::vector<ShellText> words;
      for (const RawWord& word : node.words) {
        words.push_back(expand_text(state_, word));
      }
      status = evaluate_test(state_, words);
      break;
    }
    case Kind::kArithmetic: {
      const auto value = evaluate_arithmetic(state_, node.words[0]);
      status = !value        ? ShellStatus::kUnknown
               : *value != 0 ? ShellStatus::kTrue
                             : ShellStatus::kFalse;
      if (!value) {
        forget({known_text(node.words[0].text, node.line)}, "((...))", node.line);
      }
      break;
    }
    case Kind::kList:
      status = run_list(node.children);
      break;
    case Kind::kGroup:
      status = node.is_subshell ? run_subshell(node) : run_list(node.children);
      break;
    case Kind::kPipeline:
      for (const auto& child : node.children) {
        status = run_node(*child);
      }
      break;
    case Kind::kAndOr:
      status = run_and_or(node);
      break;
    case Kind::kNot:
      status = run_node(*node.children[0]);
      status = status == ShellStatus::kUnknown ? status
               : status == ShellStatus::kTrue  ? ShellStatus::kFalse
                                               : ShellStatus::kTrue;
      break;
    case Kind::kIf:
      run_if(node);
      break;
    case Kind::kLoop:
      run_loop(node);
      break;
    case Kind::kCase:
      run_case(node);
      break;
    case Kind::kFunction:
      functions_[node.words[0].text] = node.children[0].get();
      break;
  }
  keep_heredocs(node);
  --depth_;
  return status;
}

// Neither its variables nor its exit are the script's.
ShellStatus ShellRunner::run_subshell(const ShellNode& node) {
  std::map<std::string, ShellVariable> before = copy_variables(node.line);
  const ShellStatus status = run_list(node.children);
  state_.set_variables(std::move(before));
  stopped_ = false;
  return status;
}

std::map<std::string, ShellVariable> ShellRunner::copy_variables(int line) {
  for (const auto& [name, variable] : state_.variables()) {
    for (const ShellText& item : variable.items) {
      state_.charge(item.chars.size() / 16, line);
    }
  }
  return state_.variables();
}

// Programs are taken to succeed; a test that cannot be decided leaves its right side undecided.
ShellStatus ShellRunner::run_and_or(const ShellNode& node) {
  ShellStatus status = run_node(*node.children[0]);
  for (size_t i = 1; i < node.children.size() && !stopped_; ++i) {
    const ShellStatus needed = node.ops[i - 1] == "&&" ? ShellStatus::kTrue : ShellStatus::kFalse;
    if (status == needed) {
      status = run_node(*node.children[i]);
    } else if (status == ShellStatus::kUnknown) {
      run_undecided(*node.children[i],
                    branch(node, fmt::format("a test before {}", node.ops[i - 1])));
    }
  }
  return status;
}

ShellStatus ShellRunner::run_condition(const ShellNode& list) {
  const bool outer = std::exchange(in_condition_, true);
  state_.forget_undecided();
  const ShellStatus status = run_node(list);
  in_condition_ = outer;
  return status;
}

void ShellRunner::run_undecided(const ShellNode& body, const ShellBranch& branch) {
  std::map<std::string, ShellVariable> before = copy_variables(body.line);
  ++undecided_;
  const bool outer = std::exchange(in_condition_, false);
  run_node(body);
  in_condition_ = outer;
  --undecided_;
  stopped_ = false;
  state_.restore(std::move(before), branch);
}

void ShellRunner::run_if(const ShellNode& node) {
  const size_t pairs = node.children.size() / 2;
  bool decided = true;
  for (size_t i = 0; i < pairs && !stopped_; ++i) {
    const ShellStatus status = run_condition(*node.children[2 * i]);
    if (status == ShellStatus::kFalse) {
      continue;
    }
    if (status == ShellStatus::kTrue && decided) {
      run_node(*node.children[2 * i + 1]);
      return;
    }
    decided = false;
    run_undecided(*node.children[2 * i + 1], branch(node, "if"));
  }
  if (!node.has_else || stopped_) {
    return;
  }
  if (decided) {
    run_node(*node.children.back());
  } else {
    run_undecided(*node.children.back(), branch(node, "if ... else"));
  }
}

void ShellRunner::run_loop(const ShellNode& node) {
  if (!node.is_for) {
    if (run_condition(*node.children[0]) != ShellStatus::kFalse) {
      run_undecided(*node.children[1], branch(node, "a while loop"));
    }
    return;
  }
  const std::string& name = node.words[0].text;
  // Over the script's arguments, of which there are none.
  const bool over_arguments =
      !name.empty() &&  // of for ((...))
      std::all_of(node.words.begin() + 1, node.words.end(), [](const RawWord& word) {
        return word.text == "$*" || word.text == "$@" || word.text == "\"$@\"" ||
               word.text == "\"$*\"";
      });
  if (over_arguments && !state_.in_function() && state_.given_arguments().empty()) {
    state_.note(state_.assumptions,
                "the script is read without arguments; give them with --set 1=VALUE", node.line);
    return;
  }
  if (!name.empty() && !state_.is_pinned(name)) {
    const std::string reason = fmt::format(
        "{} takes several values in a loop; choose one with --set {}=VALUE", name, name);
    state_.assign(name, {state_.make_unknown("$" + name, {reason, node.line, false})});
  }
  run_undecided(*node.children[0], {"a for loop", node.line, ""});
}

void ShellRunner::run_case(const ShellNode& node) {
  const ShellText value = expand_text(state_, node.words[0]);
  const bool known = value.known() || state_.only_outside(value);
  const std::string text = value.known() ? value.chars : "";
  constexpr size_t kLongest = 4096;
  for (size_t i = 0; i < node.children.size() && !stopped_; ++i) {
    bool matches = false;
    for (const RawWord& raw : node.patterns[i]) {
      const ShellText pattern = expand_text(state_, raw);
      matches = matches || (text.size() < kLongest && pattern.chars.size() < kLongest &&
                            glob_match(pattern.chars, text));
    }
    if (!known) {
      run_undecided(*node.children[i], branch(node, "case"));
    } else if (matches) {
      run_node(*node.children[i]);
      return;
    }
  }
}

std::map<std::string, ShellWord> ShellRunner::exported() const {
  std::map<std::string, ShellWord> environment;
  for (const auto& [name, variable] : state_.variables()) {
    if (variable.exported && !variable.items.empty()) {
      ShellWord& word = environment[name];
      word = state_.to_word(variable.items[0]);
      word.line = word.line > 0 ? word.line : variable.line;
    }
  }
  return environment;
}

// Commands that stand in variables: how they come to run may not be readable.
void ShellRunner::keep_held_commands() {
  constexpr size_t kLeastWords = 4;
  const std::map<std::string, ShellWord> environment = exported();
  for (const auto& [name, variable] : state_.variables()) {
    // Items of an array stay whole; a text falls into words.
    const bool array = variable.items.size() > 1;
    const RawWord use{array ? "\"${" + name + "[@]}\"" : "${" + name + "}", variable.line};
    ShellCommand command{.words = {}, .environment = {}, .line = variable.line};
    for (const ShellText& word : expand_fields(state_, use)) {
      command.words.push_back(state_.to_word(word));
    }
    if (command.words.size() < kLeastWords) {
      continue;
    }
    state_.charge(command.words.size() * 16, variable.line);
    for (const auto& [key, value] : environment) {
      state_.charge(value.text.size() / 8, variable.line);
    }
    command.environment = environment;
    result_.held_commands.emplace(name, std::move(command));
  }
}

ShellScript ShellRunner::finish() {
  result_.origin = state_.origin();
  keep_held_commands();
  for (const auto& [name, variable] : state_.variables()) {
    if (!variable.exported && variable.items.size() == 1) {
      result_.variables[name] = state_.to_word(variable.items[0]);
    }
  }
  result_.not_evaluated = state_.not_evaluated;
  result_.assumptions = state_.assumptions;
  return std::move(result_);
}

const ShellWord* find_file(const ShellScript& script, const std::string& path) {
  for (const std::string& name : {path, path.substr(path.rfind('/') + 1)}) {
    const auto found = script.files.find(name);
    if (found != script.files.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

ShellScript read_shell(std::string_view text, const std::string& origin,
                       const ShellOptions& options) {
  return ShellRunner(origin, options).run(text);
}

ShellCommand plain_command(const std::vector<std::string>& words) {
  ShellCommand command;
  for (const std::string& word : words) {
    command.words.push_back({.text = word, .line = 0, .unknown = {}});
  }
  return command;
}

}  // namespace plait
