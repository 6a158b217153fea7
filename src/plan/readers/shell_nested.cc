// Text that a launch script runs as a script of its own: eval, bash -c.
#include <cctype>
#include <utility>

#include "base/error.h"
#include "plan/readers/shell_runner.h"

namespace plait {
namespace {

// Where text that becomes a script stands with respect to quotes.
class QuoteState {
 public:
  void take(char c) {
    if (std::exchange(escaped_, false)) {
      at_word_ = false;
      return;
    }
    if (comment_) {
      comment_ = c != '\n';
    } else if (quote_ != '\0') {
      escaped_ = c == '\\' && quote_ == '"';
      quote_ = c == quote_ ? '\0' : quote_;
    } else if (c == '\'' || c == '"') {
      quote_ = c;
    } else if (c == '\\') {
      escaped_ = true;
    } else {
      comment_ = c == '#' && at_word_;
    }
    at_word_ = quote_ == '\0' && std::isspace(static_cast<unsigned char>(c)) != 0;
  }
  bool in_single_quotes() const { return quote_ == '\''; }

 private:
  char quote_ = '\0';
  bool escaped_ = false;
  bool comment_ = false;
  bool at_word_ = true;  // a '#' would begin a comment
};

}  // namespace

void ShellRunner::run_eval(const std::vector<ShellText>& words, int line) {
  ShellText text;
  for (const ShellText& word : words) {
    if (!text.chars.empty()) {
      text.add(' ', line);
    }
    text.add(word);
  }
  run_text(text, "eval", line);
}

// "bash -c TEXT", "sh -l -o pipefail -c TEXT".
std::optional<ShellRunner::NestedShell> ShellRunner::find_nested_shell(
    const std::vector<ShellText>& words) {
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    const std::string name = words[i].chars.substr(words[i].chars.rfind('/') + 1);
    if (name != "bash" && name != "sh") {
      continue;
    }
    for (size_t at = i + 1; at + 1 < words.size();) {
      const std::string& option = words[at].chars;
      if (option.size() < 2 || (option[0] != '-' && option[0] != '+')) {
        break;
      }
      const bool is_long = option.starts_with("--");
      if (!is_long && option[0] == '-' && option.find('c') != std::string::npos) {
        return NestedShell{i, at + 1};
      }
      const bool takes_value = is_long ? option == "--rcfile" || option == "--init-file"
                                       : option.back() == 'o' || option.back() == 'O';
      at += takes_value ? 2 : 1;
    }
  }
  return std::nullopt;
}

// Also behind srun, mpirun, docker exec or ssh.
void ShellRunner::run_nested_shell(const std::vector<ShellText>& words, const NestedShell& nested,
                                   int line) {
  // What starts the processes counts; what only leads into a container or to a host does not.
  const std::string& first = words[0].chars;
  const bool starts =
      first.ends_with("srun") || first.ends_with("mpirun") || first.ends_with("mpiexec");
  const std::vector<ShellText> outer = prefix_;
  if (starts) {
    prefix_.insert(prefix_.end(), words.begin(),
                   words.begin() + static_cast<std::ptrdiff_t>(nested.shell));
  }
  // Behind the text: $0, then its arguments.
  const size_t arguments = std::min(nested.text + 2, words.size());
  state_.arguments().emplace_back(words.begin() + static_cast<std::ptrdiff_t>(arguments),
                                  words.end());
  std::map<std::string, ShellVariable> before = copy_variables(line);
  run_text(words[nested.text], "a command line", line);
  state_.set_variables(std::move(before));
  state_.arguments().pop_back();
  prefix_ = outer;
  stopped_ = false;
}

// Reads text as a script. Parts that are not known stand in it as values of their own.
void ShellRunner::run_text(const ShellText& text, const char* what, int line) {
  constexpr int kDeepestNesting = 8;
  if (nested_ >= kDeepestNesting) {
    state_.fail(line, "eval and nested shells are nested too deeply to be read");
  }
  state_.charge(text.chars.size() * 4, line);
  std::string script;
  bool any_known = false;
  QuoteState quotes;
  for (size_t i = 0; i < text.chars.size();) {
    const int32_t origin = text.origins[i];
    if (origin >= 0) {
      any_known = any_known || std::isspace(static_cast<unsigned char>(text.chars[i])) == 0;
      quotes.take(text.chars[i]);
      script += text.chars[i++];
      continue;
    }
    ShellText part;
    while (i < text.chars.size() && text.origins[i] == origin) {
      part.add(text.chars[i], origin);
      ++i;
    }
    const std::string name = fmt::format("PLAIT_UNKNOWN_{}", -1 - origin);
    state_.assign(name, {part}, line);
    // Within single quotes it would not be expanded: they end before it.
    script += quotes.in_single_quotes() ? "'${" + name + "}'" : "${" + name + "}";
  }
  if (!any_known) {
    if (!text.chars.empty()) {
      state_.note(state_.not_evaluated,
                  fmt::format("{} of text that is not known ({}): what it sets is unknown", what,
                              state_.first_unknown(text)->reason),
                  line);
    }
    return;
  }
  try {
    trees_.push_back(parse_shell(script, state_.origin(), line));
  } catch (const Error& error) {
    state_.note(state_.not_evaluated, fmt::format("{} could not be read: {}", what, error.what()),
                line);
    return;
  }
  ++nested_;
  run_list(trees_.back());
  --nested_;
}

}  // namespace plait
