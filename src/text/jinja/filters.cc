// Filters of single values: text, numbers, JSON, defaults.
#include "text/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "text/jinja/parser.h"
#include "text/jinja/text_ops.h"

namespace plait::jinja {
namespace {

Value to_json(const FilterCall& call) {
  JsonStyle style;
  const Value* indent = call.find(0, "indent");
  if (indent != nullptr && indent->as_text() != nullptr) {
    call.runtime.fail("tojson: only an integer indent is implemented");
  }
  style.indent = call.integer(0, "indent", -1);
  if (style.indent > 64) {
    call.runtime.fail("tojson: indent must be at most 64");
  }
  style.sort_keys = call.flag(3, "sort_keys", false);
  require_defined(call.runtime, call.input);
  MarkedText text;
  try {
    text = to_json_text(call.input, style);
  } catch (const std::invalid_argument& error) {
    call.runtime.fail(std::string("tojson: ") + error.what());
  }
  call.runtime.charge_text(text.size());
  return Value::text(std::move(text));
}

Value trim(const FilterCall& call) {
  std::optional<std::string> characters;
  const Value* given = call.find(0, "chars");
  if (given != nullptr && !given->is_none()) {
    characters = text_argument(call.runtime, *given, "chars").bytes();
  }
  return Value::text(strip(call.text(), characters, {}));
}

Value replace_text(const FilterCall& call) {
  const Value* old_text = call.find(0, "old");
  const Value* new_text = call.find(1, "new");
  if (old_text == nullptr || new_text == nullptr) {
    call.runtime.fail("replace needs two arguments");
  }
  const Callable method{"replace", std::make_shared<Value>(Value::text(call.text())), nullptr};
  Arguments arguments;
  arguments.positional = {Value::text(to_text(*old_text)), Value::text(to_text(*new_text)),
                          Value::integer(call.integer(2, "count", -1))};
  return call_method(call.runtime, method, arguments);
}

Value indented(const FilterCall& call) {
  std::string space;
  const Value* width = call.find(0, "width");
  if (width != nullptr && width->as_text() != nullptr) {
    space = width->as_text()->bytes();
  } else {
    const int64_t count = call.integer(0, "width", 4);
    if (count > 1000) {
      call.runtime.fail("indent: width must be at most 1000");
    }
    space.assign(static_cast<size_t>(std::max<int64_t>(count, 0)), ' ');
  }
  const bool first = call.flag(1, "first", false);
  const bool blank = call.flag(2, "blank", false);
  MarkedText text = call.text();
  text.append(MarkedText("\n"));  // as Jinja does, so that the last line counts
  MarkedText result;
  const std::vector<MarkedText> lines = split_lines(text, false);
  call.runtime.charge_text(text.size() + lines.size() * space.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    result.append(MarkedText(i > 0 ? "\n" : ""));
    if (i == 0 ? first : blank || !lines[i].empty()) {
      result.append(MarkedText(space));
    }
    result.append(lines[i]);
  }
  return Value::text(std::move(result));
}

Value escaped(const FilterCall& call) {
  MarkedText text = call.text();
  const std::pair<const char*, const char*> kEscapes[] = {
      {"&", "&amp;"}, {">", "&gt;"}, {"<", "&lt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
  for (const auto& [plain, entity] : kEscapes) {
    text = replace(text, {plain, MarkedText(entity, text.any_user()), -1});
    call.runtime.charge_text(text.size());
  }
  return Value::text(std::move(text));
}

// Python's int() and float() of a text: white space around it is allowed.
template <typename T>
std::optional<T> parse_number(const MarkedText& text) {
  const std::string digits = strip(text, std::nullopt, {}).bytes();
  const char* begin = digits.data();
  const char* end = begin + digits.size();
  begin += begin != end && *begin == '+' ? 1 : 0;
  T value{};
  const auto parsed = std::from_chars(begin, end, value);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional<T>(value) : std::nullopt;
}

Value to_integer(const FilterCall& call) {
  static constexpr double kMax = 9.2e18;
  std::optional<int64_t> value = call.input.as_integer();
  std::optional<double> number = call.input.as_number();
  if (const MarkedText* text = call.input.as_text()) {
    value = parse_number<int64_t>(*text);
    number = parse_number<double>(*text);
  }
  if (!value && number && std::abs(*number) < kMax) {
    value = static_cast<int64_t>(*number);
  }
  return Value::integer(value ? *value : call.integer(0, "default", 0));
}

Value to_float(const FilterCall& call) {
  std::optional<double> number = call.input.as_number();
  if (const MarkedText* text = call.input.as_text()) {
    number = parse_number<double>(*text);
  }
  if (number) {
    return Value::number(*number);
  }
  const Value* absent = call.find(0, "default");
  return Value::number(absent == nullptr ? 0.0 : absent->as_number().value_or(0.0));
}

Value absolute(const FilterCall& call) {
  if (const std::optional<int64_t> integer = call.input.as_integer()) {
    return Value::integer(*integer == INT64_MIN ? INT64_MAX : std::abs(*integer));
  }
  if (const std::optional<double> number = call.input.as_number()) {
    return Value::number(std::abs(*number));
  }
  call.runtime.fail(fmt::format("abs: a number is needed, not {}", call.input.type_name()));
}

Value rounded(const FilterCall& call) {
  const int64_t precision = call.integer(0, "precision", 0);
  const Value* method = call.find(1, "method");
  const std::string how = method == nullptr ? "common" : to_text(*method).bytes();
  const std::optional<double> number = call.input.as_number();
  if (!number || precision < 0 || precision > 15) {
    call.runtime.fail("round: a number and a precision from 0 to 15 are needed");
  }
  if (how == "common" && call.input.as_integer()) {
    return call.input;
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (how == "ceil") {
    return Value::number(std::ceil(*number * scale) / scale);
  }
  if (how == "floor") {
    return Value::number(std::floor(*number * scale) / scale);
  }
  double value = 0;  // correctly rounded decimal digits, ties to even, as Python's round()
  const std::string digits = fmt::format("{:.{}f}", *number, precision);
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return Value::number(value);
}

Value defaulted(const FilterCall& call) {
  const bool replace_false = call.flag(1, "boolean", false);
  if (!call.input.is_undefined() && (!replace_false || call.input.truth())) {
    return call.input;
  }
  const Value* absent = call.find(0, "default_value");
  return absent == nullptr ? Value::text(std::string()) : *absent;
}

template <CaseChange change>
Value cased(const FilterCall& call) {
  return Value::text(change_case(call.text(), change));
}

const std::unordered_map<std::string, Filter>& all_filters() {
  static const std::unordered_map<std::string, Filter> filters = [] {
    std::unordered_map<std::string, Filter> made;
    add_text_filters(made);
    add_list_filters(made);
    return made;
  }();
  return filters;
}

}  // namespace

void add_text_filters(std::unordered_map<std::string, Filter>& filters) {
  filters["tojson"] = to_json;
  filters["trim"] = trim;
  filters["replace"] = replace_text;
  filters["indent"] = indented;
  filters["escape"] = filters["e"] = escaped;
  filters["int"] = to_integer;
  filters["float"] = to_float;
  filters["abs"] = absolute;
  filters["round"] = rounded;
  filters["default"] = filters["d"] = defaulted;
  filters["upper"] = cased<CaseChange::kUpper>;
  filters["lower"] = cased<CaseChange::kLower>;
  filters["title"] = cased<CaseChange::kTitle>;
  filters["capitalize"] = cased<CaseChange::kCapitalize>;
  filters["string"] = [](const FilterCall& call) { return Value::text(call.text()); };
  filters["safe"] = filters["string"];
}

bool is_filter(const std::string& name) {
  return all_filters().contains(name);
}

Value apply_filter(Runtime& runtime, const std::string& name, const Value& input,
                   const Arguments& arguments) {
  const auto found = all_filters().find(name);
  if (found == all_filters().end()) {
    runtime.fail("there is no filter '" + name + "'");
  }
  return found->second({runtime, input, arguments, found->first.c_str()});
}

}  // namespace plait::jinja
