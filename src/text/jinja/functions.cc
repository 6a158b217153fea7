// Operators and global functions.
#include <cmath>
#include <ctime>
#include <unordered_map>

#include "text/jinja/evaluator.h"
#include "text/jinja/text_ops.h"

namespace plait::jinja {
namespace {

Value add_integers(const Runtime& runtime, char name, int64_t left, int64_t right) {
  int64_t result = 0;
  const bool overflows = name == '+'   ? __builtin_add_overflow(left, right, &result)
                         : name == '-' ? __builtin_sub_overflow(left, right, &result)
                                       : __builtin_mul_overflow(left, right, &result);
  if (overflows) {
    runtime.fail("the result of an integer operation does not fit 64 bits");
  }
  return Value::integer(result);
}

// Rounds down, as Python does.
Value divide_integers(const Runtime& runtime, bool remainder, int64_t left, int64_t right) {
  if (right == 0) {
    runtime.fail("division by zero");
  }
  if (right == -1) {
    return remainder ? Value::integer(0) : add_integers(runtime, '-', 0, left);
  }
  const int64_t rest = left % right;
  const bool below = rest != 0 && (rest < 0) != (right < 0);
  return Value::integer(remainder ? rest + (below ? right : 0) : left / right - (below ? 1 : 0));
}

Value power(const Runtime& runtime, const Value& left, const Value& right) {
  if (left.as_integer() && right.as_integer() && *right.as_integer() >= 0) {
    Value result = Value::integer(1);
    int64_t base = *left.as_integer();
    if (base == 0 || base == 1 || base == -1) {
      const bool odd = *right.as_integer() % 2 != 0;
      return Value::integer(*right.as_integer() == 0 ? 1 : base == -1 && !odd ? 1 : base);
    }
    for (int64_t i = 0; i < *right.as_integer(); ++i) {  // overflows after 63 steps at the latest
      result = add_integers(runtime, '*', *result.as_integer(), base);
    }
    return result;
  }
  return Value::number(std::pow(*left.as_number(), *right.as_number()));
}

Value number_operator(const Runtime& runtime, const std::string& name, const Value& left,
                      const Value& right) {
  const bool integers = left.as_integer() && right.as_integer();
  if (name == "**") {
    return power(runtime, left, right);
  }
  if (integers && (name == "+" || name == "-" || name == "*")) {
    return add_integers(runtime, name[0], *left.as_integer(), *right.as_integer());
  }
  if (integers && (name == "//" || name == "%")) {
    return divide_integers(runtime, name == "%", *left.as_integer(), *right.as_integer());
  }
  const double a = *left.as_number();
  const double b = *right.as_number();
  if (name == "+" || name == "-") {
    return Value::number(name == "+" ? a + b : a - b);
  }
  if (name == "*") {
    return Value::number(a * b);
  }
  if (b == 0) {
    runtime.fail("division by zero");
  }
  if (name == "/") {
    return Value::number(a / b);
  }
  return Value::number(name == "//" ? std::floor(a / b) : a - b * std::floor(a / b));
}

Value repeated(Runtime& runtime, const Value& sequence, int64_t count) {
  count = std::max<int64_t>(count, 0);
  if (const MarkedText* text = sequence.as_text()) {
    const auto limit = static_cast<size_t>(runtime.limits().text_bytes);
    if (!text->empty() && static_cast<size_t>(count) > limit / text->size()) {
      runtime.fail(fmt::format("a text grows beyond {} bytes", limit));
    }
    runtime.charge_text(text->size() * static_cast<size_t>(count));
    runtime.charge(text->empty() ? 0 : count);
    MarkedText result;
    for (int64_t i = 0; i < count && !text->empty(); ++i) {
      result.append(*text);
    }
    return Value::text(std::move(result));
  }
  std::vector<Value> items;
  const std::vector<Value>& once = sequence.as_list()->items;
  for (int64_t i = 0; i < count && !once.empty(); ++i) {
    runtime.charge(static_cast<int64_t>(once.size()));
    items.insert(items.end(), once.begin(), once.end());
  }
  return Value::list(std::move(items), sequence.as_list()->is_tuple);
}

Value concatenated(Runtime& runtime, const MarkedText& left, const MarkedText& right) {
  runtime.charge_text(left.size() + right.size());
  MarkedText result = left;
  result.append(right);
  return Value::text(std::move(result));
}

Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  const Value* message = arguments.find(0, "message");
  runtime.fail(message == nullptr ? "the template refuses the messages"
                                  : to_text(*message).bytes());
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  const Value* given = arguments.find(0, "format");
  if (given == nullptr) {
    runtime.fail("strftime_now needs a format");
  }
  const std::string format = text_argument(runtime, *given, "format").bytes();
  const auto seconds = static_cast<std::time_t>(runtime.now_s);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[512];
  const size_t size = std::strftime(text, sizeof(text), format.c_str(), &parts);
  if (size == 0 && !format.empty()) {
    runtime.fail("strftime_now: the result has more than 511 characters");
  }
  return Value::text(std::string(text, size));
}

Value range(Runtime& runtime, const Arguments& arguments) {
  const size_t count = arguments.positional.size();
  if (count == 0 || count > 3) {
    runtime.fail("range takes one to three arguments");
  }
  const auto at = [&](size_t place) {
    return integer_argument(runtime, arguments.positional[place], "an argument of range");
  };
  const int64_t start = count > 1 ? at(0) : 0;
  const int64_t stop = count > 1 ? at(1) : at(0);
  const int64_t step = count > 2 ? at(2) : 1;
  if (step == 0) {
    runtime.fail("range() arg 3 must not be zero");
  }
  static constexpr size_t kItemsMax = 100'000;  // as in Jinja's sandbox
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (items.size() == kItemsMax) {
      runtime.fail(fmt::format("range gives more than {} items", kItemsMax));
    }
    runtime.charge(1);
    items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) {
      break;
    }
  }
  return Value::list(std::move(items));
}

Dict dict_of(Runtime& runtime, const Arguments& arguments) {
  Dict dict;
  for (const Value& source : arguments.positional) {
    if (source.as_dict() == nullptr) {
      runtime.fail("a mapping is needed");
    }
    for (const auto& [key, value] : source.as_dict()->entries()) {
      dict.set(key, value);
    }
  }
  for (const auto& [name, value] : arguments.keywords) {
    dict.set(Value::text(name), value);
  }
  return dict;
}

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  Dict dict = dict_of(runtime, arguments);
  dict.is_namespace = true;
  return Value::dict(std::move(dict));
}

Value make_dict(Runtime& runtime, const Arguments& arguments) {
  return Value::dict(dict_of(runtime, arguments));
}

}  // namespace

Function find_function(const std::string& name) {
  static const std::unordered_map<std::string, Function> functions = {
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
      {"range", range},
      {"namespace", make_namespace},
      {"dict", make_dict},
  };
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}

Value apply_operator(Runtime& runtime, const std::string& name, const Value& left,
                     const Value& right) {
  if (name == "~") {
    return concatenated(runtime, to_text(left), to_text(right));
  }
  require_defined(runtime, left);
  require_defined(runtime, right);
  if (left.as_number() && right.as_number()) {
    return number_operator(runtime, name, left, right);
  }
  if (name == "+" && left.as_text() != nullptr && right.as_text() != nullptr) {
    return concatenated(runtime, *left.as_text(), *right.as_text());
  }
  if (name == "+" && left.as_list() != nullptr && right.as_list() != nullptr &&
      left.as_list()->is_tuple == right.as_list()->is_tuple) {
    std::vector<Value> items = items_of(runtime, left);
    const std::vector<Value> more = items_of(runtime, right);
    items.insert(items.end(), more.begin(), more.end());
    return Value::list(std::move(items), left.as_list()->is_tuple);
  }
  const bool left_repeats = left.as_text() != nullptr || left.as_list() != nullptr;
  const bool right_repeats = right.as_text() != nullptr || right.as_list() != nullptr;
  if (name == "*" && left_repeats && right.as_integer()) {
    return repeated(runtime, left, *right.as_integer());
  }
  if (name == "*" && right_repeats && left.as_integer()) {
    return repeated(runtime, right, *left.as_integer());
  }
  runtime.fail(fmt::format("unsupported operand types for {}: '{}' and '{}'", name,
                           left.type_name(), right.type_name()));
}

}  // namespace plait::jinja
