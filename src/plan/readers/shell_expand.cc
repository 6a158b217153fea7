// Expansion of words: quotes, variables, defaults, arithmetic, splitting at blanks.
#include <algorithm>
#include <cctype>
#include <utility>

#include "plan/readers/shell_lexer.h"
#include "plan/readers/shell_state.h"

namespace plait {
namespace {

constexpr int kDeepestExpansion = 32;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}
bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
size_t name_end(std::string_view text, size_t at) {
  if (at >= text.size() || !is_name_start(text[at])) {
    return at;
  }
  while (at < text.size() && is_shell_name_char(text[at])) {
    ++at;
  }
  return at;
}

// Collects fields.
class Fields {
 public:
  explicit Fields(bool splitting) : splitting_(splitting) {}

  void add(char c, int32_t origin) {
    current_.add(c, origin);
    open_ = true;
  }
  void open() { open_ = true; }  // quotes make an empty field
  void close() {
    if (open_) {
      done_.push_back(std::move(current_));
      current_ = {};
      open_ = false;
    }
  }
  // A value: split at blanks outside of quotes.
  void add_value(const ShellText& value, bool quoted) {
    for (size_t i = 0; i < value.chars.size(); ++i) {
      if (splitting_ && !quoted && value.origins[i] >= 0 && is_space(value.chars[i])) {
        close();
      } else {
        add(value.chars[i], value.origins[i]);
      }
    }
  }
  // Between two items of "${ARRAY[@]}".
  void next_item() {
    if (splitting_) {
      close();
    } else {
      add(' ', 0);
    }
  }
  std::vector<ShellText> take() {
    close();
    return std::move(done_);
  }

 private:
  bool splitting_;
  bool open_ = false;
  ShellText current_;
  std::vector<ShellText> done_;
};

// "${NAME[INDEX]OPERAND}", taken apart.
struct Parameter {
  std::string name;
  std::string index;  // "" none, "@", "*", or a number
  bool length = false;
  std::string op;  // ":-", "%", ...
  std::string_view operand;
};

class Expander {
 public:
  Expander(ShellState& state, bool splitting) : state_(state), fields_(splitting) {}

  void expand(std::string_view text, int line, bool quoted);
  std::vector<ShellText> take() { return fields_.take(); }

 private:
  void add_escaped(char c, int line, bool quoted);
  void add_literal(std::string_view quoted_text, int line);
  size_t expand_dollar(std::string_view text, size_t at, int line, bool quoted);
  void expand_parameter(std::string_view inside, int line, bool quoted);
  void expand_name(const std::string& name, int line, bool quoted);
  void expand_arguments(int line, bool quoted);
  void expand_arithmetic(std::string_view expression, int line, bool quoted);
  void apply_operator(const Parameter& parameter, int line, bool quoted);
  bool trim(const Parameter& parameter, const ShellText& value, int line, bool quoted);
  void unknown(std::string_view shown, const std::string& reason, int line);
  void add_items(const std::vector<ShellText>& items, bool quoted) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) {
        fields_.next_item();
      }
      state_.charge(items[i].chars.size(), 0);
      fields_.add_value(items[i], quoted);
      if (quoted) {
        fields_.open();
      }
    }
  }
  // The value of a variable or argument; absent if it has none.
  std::optional<std::vector<ShellText>> value_of(const std::string& name, const std::string& index);

  ShellState& state_;
  Fields fields_;
  int depth_ = 0;
};

void Expander::unknown(std::string_view shown, const std::string& reason, int line) {
  state_.note(state_.not_evaluated, reason, line);
  fields_.add_value(state_.make_unknown(shown, {reason, line, false}), true);
}

// What a backslash stands before.
void Expander::add_escaped(char c, int line, bool quoted) {
  const bool escapes = !quoted || c == '$' || c == '`' || c == '"' || c == '\\' || c == '\n';
  if (!escapes) {
    fields_.add('\\', line);
  }
  if (c != '\n') {
    fields_.add(c, line);
  }
}

// What stands in single quotes, the closing one included.
void Expander::add_literal(std::string_view quoted_text, int line) {
  for (size_t i = 0; i + 1 < quoted_text.size(); ++i) {
    fields_.add(quoted_text[i], line);
    line += quoted_text[i] == '\n' ? 1 : 0;
  }
  fields_.open();
}

void Expander::expand(std::string_view text, int line, bool quoted) {
  if (++depth_ > kDeepestExpansion) {
    state_.fail(line, "expansions are nested too deeply to be read");
  }
  state_.charge(text.size(), line);
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const char follows = i + 1 < text.size() ? text[i + 1] : '\0';
    size_t end = i + 1;
    if (c == '\\' && i + 1 < text.size()) {
      add_escaped(follows, line, quoted);
      end = i + 2;
    } else if (c == '\'' && !quoted) {
      end = skip_shell_construct(text, i);
      add_literal(text.substr(i + 1, std::min(end, text.size()) - i - 1), line);
    } else if (c == '"' && !quoted) {
      end = skip_shell_construct(text, i);
      if (end != kNoEnd) {
        expand(text.substr(i + 1, end - i - 2), line, true);
      }
      fields_.open();
    } else if (c == '$') {
      end = expand_dollar(text, i, line, quoted);
    } else if (c == '`' || (!quoted && (c == '<' || c == '>') && follows == '(')) {
      end = skip_shell_construct(text, i);
      unknown(text.substr(i, end - i), "command substitution is not evaluated", line);
    } else {
      fields_.add(c, line);
    }
    if (end == kNoEnd) {
      state_.fail(line, "a quote or bracket is never closed");
    }
    line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(i),
                                        text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    i = end;
  }
  --depth_;
}

size_t Expander::expand_dollar(std::string_view text, size_t at, int line, bool quoted) {
  const char follows = at + 1 < text.size() ? text[at + 1] : '\0';
  if (follows == '(' || follows == '{' || (follows == '\'' && !quoted)) {
    const size_t end = skip_shell_construct(text, at);
    if (end == kNoEnd) {
      return kNoEnd;
    }
    const std::string_view inside = text.substr(at + 2, end - at - 3);
    if (follows == '{') {
      expand_parameter(inside, line, quoted);
    } else if (follows == '\'') {
      fields_.add_value(known_text(inside, line), true);
      fields_.open();
    } else if (inside.starts_with('(') && inside.ends_with(')')) {
      expand_arithmetic(inside.substr(1, inside.size() - 2), line, quoted);
    } else {
      unknown(text.substr(at, end - at), "command substitution $(...) is not evaluated", line);
    }
    return end;
  }
  const size_t end = name_end(text, at + 1);
  if (end > at + 1) {
    expand_name(std::string(text.substr(at + 1, end - at - 1)), line, quoted);
    return end;
  }
  static constexpr std::string_view kSpecial = "0123456789@*#?$!-";
  if (follows != '\0' && kSpecial.find(follows) != kNoEnd) {
    expand_name(std::string(1, follows), line, quoted);
    return at + 2;
  }
  fields_.add('$', line);
  return at + 1;
}

void Expander::expand_arguments(int line, bool quoted) {
  const std::vector<ShellText>& given =
      state_.in_function() ? state_.arguments().back() : state_.given_arguments();
  if (given.empty() && !state_.in_function()) {
    state_.note(state_.assumptions, "arguments of the script are passed on ($@): taken as none",
                line);
  }
  add_items(given, quoted);
}

std::optional<std::vector<ShellText>> Expander::value_of(const std::string& name,
                                                         const std::string& index) {
  if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
    const std::optional<ShellText> argument =
        name.size() < 4 ? state_.argument(std::stoi(name)) : std::nullopt;
    return argument ? std::optional(std::vector<ShellText>{*argument}) : std::nullopt;
  }
  const ShellVariable* variable = state_.find(name);
  if (variable == nullptr) {
    return std::nullopt;
  }
  if (index == "@" || index == "*") {
    return variable->items;
  }
  size_t number = 0;
  for (const char c : index) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 || number > 100000) {
      return std::nullopt;
    }
    number = number * 10 + static_cast<size_t>(c - '0');
  }
  if (number >= variable->items.size()) {
    return std::nullopt;
  }
  return std::vector<ShellText>{variable->items[number]};
}

void Expander::expand_name(const std::string& name, int line, bool quoted) {
  if (name == "@" || name == "*") {
    expand_arguments(line, quoted);
    return;
  }
  const std::string shown = "$" + name;
  if (name == "#" || name == "?" || name == "$" || name == "!" || name == "-" || name == "0") {
    fields_.add_value(
        state_.make_unknown(shown, {shown + " is known only when the script runs", line, false}),
        true);
    return;
  }
  const auto value = value_of(name, "");
  if (value) {
    state_.charge(value->front().chars.size(), line);
    fields_.add_value(value->front(), quoted);
    return;
  }
  if (state_.find(name) != nullptr) {
    return;  // an empty array
  }
  const bool argument = std::isdigit(static_cast<unsigned char>(name[0])) != 0;
  const std::string reason =
      argument
          ? fmt::format("argument ${} of the script is not known; give it with --set {}=VALUE",
                        name, name)
          : fmt::format("{} is not set in this script; give it with --set {}=VALUE", name, name);
  fields_.add_value(state_.make_unknown(shown, {reason, line, true}), true);
}

void Expander::expand_arithmetic(std::string_view expression, int line, bool quoted) {
  const std::optional<int64_t> value = evaluate_arithmetic(state_, {std::string(expression), line});
  if (value) {
    fields_.add_value(known_text(std::to_string(*value), line), quoted);
    return;
  }
  fields_.add_value(
      state_.make_unknown(fmt::format("$(({}))", expression),
                          {"the arithmetic depends on what is not known", line, false}),
      true);
}

Parameter parse_parameter(std::string_view inside) {
  Parameter parameter;
  size_t at = 0;
  if (inside.size() > 1 && inside[0] == '#') {
    parameter.length = true;
    at = 1;
  }
  size_t end = name_end(inside, at);
  if (end == at) {
    while (end < inside.size() && std::isdigit(static_cast<unsigned char>(inside[end])) != 0) {
      ++end;
    }
  }
  if (end == at && at < inside.size() && (inside[at] == '@' || inside[at] == '*')) {
    end = at + 1;
  }
  parameter.name = std::string(inside.substr(at, end - at));
  if (end < inside.size() && inside[end] == '[') {
    const size_t close = inside.find(']', end);
    if (close != kNoEnd) {
      parameter.index = std::string(inside.substr(end + 1, close - end - 1));
      end = close + 1;
    }
  }
  const std::string_view rest = inside.substr(end);
  static constexpr std::string_view kOps[] = {":-", ":=", ":+", ":?", "##", "%%",
                                              "-",  "=",  "+",  "?",  "#",  "%"};
  for (const std::string_view op : kOps) {
    if (rest.starts_with(op)) {
      parameter.op = std::string(op);
      parameter.operand = rest.substr(op.size());
      return parameter;
    }
  }
  if (!rest.empty()) {
    parameter.op = "unknown";
  }
  return parameter;
}

void Expander::expand_parameter(std::string_view inside, int line, bool quoted) {
  const Parameter parameter = parse_parameter(inside);
  const std::string shown = fmt::format("${{{}}}", inside);
  if (parameter.name.empty() || parameter.op == "unknown" ||
      (parameter.length && !parameter.op.empty())) {
    unknown(shown, fmt::format("{} is not evaluated", shown.substr(0, 40)), line);
    return;
  }
  if (parameter.length) {
    const auto value = value_of(parameter.name, parameter.index);
    const bool all = parameter.index == "@" || parameter.index == "*";
    if (!value || (!all && !value->front().known())) {
      unknown(shown, fmt::format("{} is not evaluated", shown.substr(0, 40)), line);
      return;
    }
    const size_t count = all ? value->size() : value->front().chars.size();
    fields_.add_value(known_text(std::to_string(count), line), quoted);
    return;
  }
  if (!parameter.op.empty()) {
    apply_operator(parameter, line, quoted);
  } else if (parameter.index.empty()) {
    expand_name(parameter.name, line, quoted);
  } else if (const auto value = value_of(parameter.name, parameter.index)) {
    add_items(*value, quoted);
  } else if (state_.find(parameter.name) == nullptr) {
    expand_name(parameter.name, line, quoted);
  }
}

void Expander::apply_operator(const Parameter& parameter, int line, bool quoted) {
  const auto value = value_of(parameter.name, parameter.index);
  const bool set = value && !value->empty() &&
                   (parameter.op[0] != ':' || value->size() > 1 || !value->front().chars.empty());
  const char kind = parameter.op.back();
  if (kind == '+') {
    if (set) {
      expand(parameter.operand, line, quoted);
    }
    return;
  }
  if (kind == '#' || kind == '%') {
    if (!value || value->empty() || !trim(parameter, value->front(), line, quoted)) {
      unknown("${" + parameter.name + parameter.op + "}",
              fmt::format("${{{}{}...}} is not evaluated", parameter.name, parameter.op), line);
    }
    return;
  }
  if (set) {
    add_items(*value, quoted);
    return;
  }
  if (kind == '?') {
    expand_name(parameter.name, line, quoted);
    return;
  }
  if (!value) {
    state_.note(state_.assumptions,
                fmt::format("{} is not set in this script: its default '{}' is taken",
                            parameter.name, parameter.operand.substr(0, 60)),
                line);
  }
  if (kind == '=') {
    Expander inner(state_, false);
    inner.depth_ = depth_;
    inner.expand(parameter.operand, line, quoted);
    std::vector<ShellText> items = inner.take();
    items.resize(1);
    state_.assign(parameter.name, items);
  }
  expand(parameter.operand, line, quoted);
}

// ${X#P}, ${X##P}, ${X%P}, ${X%%P}; false if something in it is not known.
bool Expander::trim(const Parameter& parameter, const ShellText& value, int line, bool quoted) {
  Expander inner(state_, false);
  inner.depth_ = depth_;
  inner.expand(parameter.operand, line, false);
  std::vector<ShellText> items = inner.take();
  items.resize(1);
  constexpr size_t kLongest = 512;
  if (!value.known() || !items[0].known() || value.chars.size() > kLongest ||
      items[0].chars.size() > kLongest / 4) {
    return false;
  }
  const bool front = parameter.op[0] == '#';
  const bool longest = parameter.op.size() == 2;
  const size_t size = value.chars.size();
  state_.charge(size * 16, line);
  for (size_t i = 0; i <= size; ++i) {
    const size_t cut = longest ? size - i : i;
    const std::string_view chars = value.chars;
    const std::string_view part = front ? chars.substr(0, cut) : chars.substr(size - cut);
    if (glob_match(items[0].chars, part)) {
      ShellText rest;
      rest.chars = std::string(front ? chars.substr(cut) : chars.substr(0, size - cut));
      const auto begin = value.origins.begin() + static_cast<std::ptrdiff_t>(front ? cut : 0);
      rest.origins.assign(begin, begin + static_cast<std::ptrdiff_t>(rest.chars.size()));
      fields_.add_value(rest, quoted);
      return true;
    }
  }
  fields_.add_value(value, quoted);
  return true;
}

}  // namespace

std::vector<ShellText> expand_fields(ShellState& state, const RawWord& word) {
  Expander expander(state, true);
  expander.expand(word.text, word.line, false);
  return expander.take();
}

ShellText expand_text(ShellState& state, const RawWord& word) {
  Expander expander(state, false);
  expander.expand(word.text, word.line, false);
  std::vector<ShellText> items = expander.take();
  return items.empty() ? ShellText{} : std::move(items[0]);
}

ShellText expand_heredoc(ShellState& state, const RawWord& body) {
  Expander expander(state, false);
  expander.expand(body.text, body.line, true);
  std::vector<ShellText> items = expander.take();
  return items.empty() ? ShellText{} : std::move(items[0]);
}

}  // namespace plait
