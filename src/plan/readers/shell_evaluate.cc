// Arithmetic and tests of launch scripts.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "plan/readers/shell_state.h"

namespace plait {
namespace {

constexpr int kDeepestArithmetic = 32;

// Signals that a value is not known: ends the evaluation.
struct Outcome {
  int64_t value = 0;
  bool known = true;
};

class Arithmetic {
 public:
  Arithmetic(ShellState& state, std::string_view text, int line, int depth)
      : state_(state), text_(text), line_(line), depth_(depth) {}

  Outcome evaluate() {
    const Outcome result = ternary();
    skip();
    if (at_ < text_.size()) {
      if (result.known && !assigns()) {
        fail(fmt::format("'{}' is not expected", text_.substr(at_, 20)));
      }
      return {0, false};
    }
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    state_.fail(line_, fmt::format("arithmetic '{}': {}", text_.substr(0, 60), what));
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    }
  }
  // True if what follows changes a variable: = += ++ ...
  bool assigns() const {
    const std::string_view rest = text_.substr(at_);
    return rest.starts_with('=') || rest.starts_with("++") || rest.starts_with("--") ||
           rest.starts_with(',') || (rest.size() > 1 && rest[1] == '=') ||
           (rest.size() > 2 && rest[2] == '=');
  }
  bool take(std::string_view op) {
    skip();
    if (!text_.substr(at_).starts_with(op)) {
      return false;
    }
    at_ += op.size();
    return true;
  }
  struct Nested {
    explicit Nested(Arithmetic& owner) : arithmetic(owner) {
      if (++arithmetic.depth_ > kDeepestArithmetic) {
        arithmetic.fail("nested too deeply");
      }
    }
    ~Nested() { --arithmetic.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    Arithmetic& arithmetic;
  };

  Outcome ternary();
  Outcome binary(size_t level);
  Outcome unary();
  Outcome primary();
  Outcome number();
  Outcome name();
  Outcome apply(std::string_view op, Outcome left, Outcome right) const;

  ShellState& state_;
  std::string_view text_;
  int line_;
  int depth_;
  size_t at_ = 0;
};

Outcome Arithmetic::ternary() {
  const Nested nested(*this);
  const Outcome condition = binary(0);
  if (!take("?")) {
    return condition;
  }
  const Outcome yes = ternary();
  if (!take(":")) {
    fail("? without :");
  }
  const Outcome no = ternary();
  if (!condition.known) {
    return {0, false};
  }
  return condition.value != 0 ? yes : no;
}

constexpr std::array<std::array<std::string_view, 4>, 8> kLevels = {{
    {"||"},
    {"&&"},
    {"|", "^"},
    {"&"},
    {"==", "!="},
    {"<=", ">=", "<", ">"},
    {"+", "-"},
    {"*", "/", "%"},
}};

Outcome Arithmetic::binary(size_t level) {
  if (level == kLevels.size()) {
    return unary();
  }
  Outcome left = binary(level + 1);
  while (true) {
    skip();
    const std::string_view rest = text_.substr(at_);
    std::string_view op;
    for (const std::string_view candidate : kLevels[level]) {
      if (!candidate.empty() && rest.starts_with(candidate)) {
        op = candidate;
        break;
      }
    }
    const char follows = rest.size() > op.size() ? rest[op.size()] : '\0';
    // Longer operators of other levels: "||", "&&", "**", "+=", "++".
    const bool other = (op.size() == 1 && (follows == '=' || follows == op[0]) && op != "!") &&
                       !(follows == '-' && op == "-" && false);
    if (op.empty() || (other && op != "<" && op != ">")) {
      return left;
    }
    at_ += op.size();
    left = apply(op, left, binary(level + 1));
  }
}

struct Operator {
  std::string_view text;
  int64_t (*apply)(int64_t, int64_t);
};
constexpr Operator kNeverOverflow[] = {
    {"||", [](int64_t a, int64_t b) -> int64_t { return a != 0 || b != 0 ? 1 : 0; }},
    {"&&", [](int64_t a, int64_t b) -> int64_t { return a != 0 && b != 0 ? 1 : 0; }},
    {"|", [](int64_t a, int64_t b) { return a | b; }},
    {"^", [](int64_t a, int64_t b) { return a ^ b; }},
    {"&", [](int64_t a, int64_t b) { return a & b; }},
    {"==", [](int64_t a, int64_t b) -> int64_t { return a == b ? 1 : 0; }},
    {"!=", [](int64_t a, int64_t b) -> int64_t { return a != b ? 1 : 0; }},
    {"<=", [](int64_t a, int64_t b) -> int64_t { return a <= b ? 1 : 0; }},
    {">=", [](int64_t a, int64_t b) -> int64_t { return a >= b ? 1 : 0; }},
    {"<", [](int64_t a, int64_t b) -> int64_t { return a < b ? 1 : 0; }},
    {">", [](int64_t a, int64_t b) -> int64_t { return a > b ? 1 : 0; }},
};

Outcome Arithmetic::apply(std::string_view op, Outcome left, Outcome right) const {
  if (!left.known || !right.known) {
    return {0, false};
  }
  const int64_t a = left.value, b = right.value;
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (op == "/" || op == "%") {
    if (b == 0) {
      fail("division by zero");
    }
    overflow = a == std::numeric_limits<int64_t>::min() && b == -1;
    result = overflow ? 0 : op == "/" ? a / b : a % b;
  } else {
    const auto* const found = std::find_if(std::begin(kNeverOverflow), std::end(kNeverOverflow),
                                           [&](const Operator& o) { return o.text == op; });
    CHECK(found != std::end(kNeverOverflow));
    result = found->apply(a, b);
  }
  if (overflow) {
    fail("the result does not fit into 64 bits");
  }
  return {result, true};
}

Outcome Arithmetic::unary() {
  const Nested nested(*this);
  skip();
  const std::string_view rest = text_.substr(at_);
  if (rest.starts_with("++") || rest.starts_with("--")) {
    at_ = text_.size();
    return {0, false};
  }
  if (take("-")) {
    return apply("-", {0, true}, unary());
  }
  if (take("+")) {
    return unary();
  }
  if (!rest.starts_with("!=") && take("!")) {
    const Outcome value = unary();
    return {value.value == 0 ? 1 : 0, value.known};
  }
  Outcome base = primary();
  if (take("**")) {
    const Outcome exponent = unary();
    if (!base.known || !exponent.known) {
      return {0, false};
    }
    if (exponent.value < 0 || exponent.value > 63) {
      fail("an exponent must be 0 to 63");
    }
    Outcome power{1, true};
    for (int64_t i = 0; i < exponent.value; ++i) {
      power = apply("*", power, base);
    }
    return power;
  }
  return base;
}

Outcome Arithmetic::primary() {
  skip();
  if (take("(")) {
    const Outcome inner = ternary();
    if (!take(")")) {
      if (assigns() || !inner.known) {
        at_ = text_.size();
        return {0, false};
      }
      fail("( is not closed");
    }
    return inner;
  }
  if (at_ >= text_.size()) {
    fail("a number or a name is missing");
  }
  return std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 ? number() : name();
}

Outcome Arithmetic::number() {
  const bool hex = text_.substr(at_).starts_with("0x") || text_.substr(at_).starts_with("0X");
  const char* begin = text_.data() + at_ + (hex ? 2 : 0);
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(begin, text_.data() + text_.size(), value, hex ? 16 : 10);
  const char* stop = end;
  if (error != std::errc() ||
      (stop < text_.data() + text_.size() &&
       (std::isalnum(static_cast<unsigned char>(*stop)) != 0 || *stop == '.' || *stop == '#'))) {
    fail(fmt::format("'{}' is no 64-bit integer", text_.substr(at_, 24)));
  }
  at_ = static_cast<size_t>(stop - text_.data());
  return {value, true};
}

Outcome Arithmetic::name() {
  size_t end = at_;
  while (end < text_.size() &&
         (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_')) {
    ++end;
  }
  if (end == at_) {
    fail(fmt::format("'{}' is not expected", text_.substr(at_, 20)));
  }
  const std::string word(text_.substr(at_, end - at_));
  at_ = end;
  skip();
  if (assigns() && !text_.substr(at_).starts_with("==")) {
    const std::string_view rest = text_.substr(at_);
    const bool compares =
        rest.starts_with("!=") || rest.starts_with("<=") || rest.starts_with(">=");
    if (!compares && !rest.starts_with(',')) {
      at_ = text_.size();
      return {0, false};
    }
  }
  const ShellVariable* variable = state_.find(word);
  if (variable == nullptr || variable->items.empty() || !variable->items[0].known()) {
    return {0, false};
  }
  const std::string& value = variable->items[0].chars;
  if (value.find_first_not_of(" \t\n") == std::string::npos) {
    return {0, true};
  }
  state_.charge(value.size(), line_);
  return Arithmetic(state_, value, line_, depth_ + 4).evaluate();
}

ShellStatus status(bool value) {
  return value ? ShellStatus::kTrue : ShellStatus::kFalse;
}
ShellStatus negate(ShellStatus value) {
  return value == ShellStatus::kUnknown ? value : status(value == ShellStatus::kFalse);
}

// Recursive descent over the words of a test.
class Test {
 public:
  Test(ShellState& state, const std::vector<ShellText>& words) : state_(state), words_(words) {}

  ShellStatus evaluate() {
    if (words_.empty()) {
      return ShellStatus::kFalse;
    }
    const ShellStatus result = any_of();
    return at_ == words_.size() ? result : ShellStatus::kUnknown;
  }

 private:
  bool is(std::string_view a, std::string_view b) const {
    return at_ < words_.size() && words_[at_].known() &&
           (words_[at_].chars == a || words_[at_].chars == b);
  }
  ShellStatus any_of() {
    ShellStatus left = all_of();
    while (is("||", "-o")) {
      ++at_;
      const ShellStatus right = all_of();
      left = left == ShellStatus::kTrue || right == ShellStatus::kTrue ? ShellStatus::kTrue
             : left == right                                           ? left
                                                                       : ShellStatus::kUnknown;
    }
    return left;
  }
  ShellStatus all_of() {
    ShellStatus left = one();
    while (is("&&", "-a")) {
      ++at_;
      const ShellStatus right = one();
      left = left == ShellStatus::kFalse || right == ShellStatus::kFalse ? ShellStatus::kFalse
             : left == right                                             ? left
                                                                         : ShellStatus::kUnknown;
    }
    return left;
  }
  ShellStatus one();
  ShellStatus compare(const ShellText& left, const std::string& op, const ShellText& right);
  // Known text; what is never set in the script counts as empty.
  std::optional<std::string> text_of(const ShellText& text) const {
    if (text.known()) {
      return text.chars;
    }
    state_.set_undecided(text);
    return state_.only_outside(text) ? std::optional(std::string()) : std::nullopt;
  }

  ShellState& state_;
  const std::vector<ShellText>& words_;
  size_t at_ = 0;
  int depth_ = 0;
};

ShellStatus Test::one() {
  if (at_ >= words_.size() || depth_ > kDeepestArithmetic) {
    return ShellStatus::kUnknown;
  }
  ++depth_;
  ShellStatus result = ShellStatus::kUnknown;
  static constexpr std::string_view kBinary[] = {"=",   "==",  "!=",  "-eq", "-ne", "-lt",
                                                 "-le", "-gt", "-ge", "=~",  "<",   ">"};
  const bool binary =
      at_ + 2 < words_.size() &&
      std::find(std::begin(kBinary), std::end(kBinary), words_[at_ + 1].chars) != std::end(kBinary);
  if (binary) {
    result = compare(words_[at_], words_[at_ + 1].chars, words_[at_ + 2]);
    at_ += 3;
  } else if (is("!", "!")) {
    ++at_;
    result = negate(one());
  } else if (is("(", "\\(")) {
    ++at_;
    result = any_of();
    at_ += is(")", "\\)") ? 1 : 0;
  } else if (at_ + 1 < words_.size() && words_[at_].chars.size() == 2 &&
             words_[at_].chars[0] == '-') {
    const char op = words_[at_].chars[1];
    const auto text = text_of(words_[at_ + 1]);
    if ((op == 'z' || op == 'n') && text) {
      result = status(text->empty() == (op == 'z'));
    }
    at_ += 2;
  } else {
    const auto text = text_of(words_[at_++]);
    result = text ? status(!text->empty()) : ShellStatus::kUnknown;
  }
  --depth_;
  return result;
}

ShellStatus Test::compare(const ShellText& left, const std::string& op, const ShellText& right) {
  const auto a = text_of(left), b = text_of(right);
  constexpr size_t kLongest = 4096;
  if (!a || !b || a->size() > kLongest || b->size() > kLongest) {
    return ShellStatus::kUnknown;
  }
  if (op == "=" || op == "==") {
    return status(glob_match(*b, *a));
  }
  if (op == "!=") {
    return status(!glob_match(*b, *a));
  }
  int64_t x = 0, y = 0;
  const auto number = [](const std::string& text, int64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  if (op[0] != '-' || !number(*a, x) || !number(*b, y)) {
    return ShellStatus::kUnknown;
  }
  return status(op == "-eq"   ? x == y
                : op == "-ne" ? x != y
                : op == "-lt" ? x < y
                : op == "-le" ? x <= y
                : op == "-gt" ? x > y
                              : x >= y);
}

}  // namespace

std::optional<int64_t> evaluate_arithmetic(ShellState& state, const RawWord& expression) {
  const ShellText text = expand_heredoc(state, expression);
  if (!text.known()) {
    return std::nullopt;
  }
  if (text.chars.find_first_not_of(" \t\n") == std::string::npos) {
    return 0;
  }
  const Outcome outcome = Arithmetic(state, text.chars, expression.line, 0).evaluate();
  return outcome.known ? std::optional(outcome.value) : std::nullopt;
}

ShellStatus evaluate_test(ShellState& state, const std::vector<ShellText>& words) {
  return Test(state, words).evaluate();
}

}  // namespace plait
