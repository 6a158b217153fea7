// What evaluation, filters, tests and methods share: limits, errors, arguments.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/jinja/value.h"

namespace plait::jinja {

struct Limits {
  int64_t steps = 5'000'000;
  int64_t text_bytes = int64_t{64} << 20;  // of the output and of any one string
  int64_t depth = 600;                     // of nested evaluation
};

class Runtime {
 public:
  Runtime(std::string origin, const Limits& limits) : origin_(std::move(origin)), limits_(limits) {}

  // Errors: kInvalidArgument with origin and line.
  [[noreturn]] void fail(const std::string& what) const {
    throw_error(ErrorCode::kInvalidArgument, "{}: line {}: {}", origin_, line, what);
  }
  // Counts work; copying text counts by its length.
  void charge(int64_t steps) {
    steps_ += steps;
    if (steps_ > limits_.steps) {
      fail(fmt::format("the template takes more than {} steps", limits_.steps));
    }
  }
  void charge_text(size_t bytes) {
    static constexpr size_t kBytesPerStep = 64;
    if (bytes > static_cast<size_t>(limits_.text_bytes)) {
      fail(fmt::format("a text grows beyond {} bytes", limits_.text_bytes));
    }
    charge(1 + static_cast<int64_t>(bytes / kBytesPerStep));
  }
  const Limits& limits() const { return limits_; }

  int64_t line = 1;   // of what is being evaluated
  int64_t now_s = 0;  // for strftime_now

 private:
  std::string origin_;
  Limits limits_;
  int64_t steps_ = 0;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  // By place or name; null if absent.
  const Value* find(size_t place, const char* name) const;
  // Errors: through `runtime` if there are more than `most` or a keyword is none of `names`.
  void check(const Runtime& runtime, const std::string& callee,
             const std::vector<std::string>& names) const;
};

// An operation on an undefined value fails with its reason.
void require_defined(const Runtime& runtime, const Value& value);
// The text of a str argument. Errors: through `runtime`.
const MarkedText& text_argument(const Runtime& runtime, const Value& value, const char* what);
int64_t integer_argument(const Runtime& runtime, const Value& value, const char* what);
// The items that a loop over the value visits: of a list, a text's characters, a dict's keys.
std::vector<Value> items_of(Runtime& runtime, const Value& value);
int64_t length_of(const Runtime& runtime, const Value& value);
// <0, 0, >0. Errors: through `runtime` for values without an order.
int compare(const Runtime& runtime, const Value& a, const Value& b);
bool contains(Runtime& runtime, const Value& container, const Value& item);
// foo.name and foo[key], as Jinja looks them up.
Value get_attribute(Runtime& runtime, const Value& object, const std::string& name);
Value get_item(Runtime& runtime, const Value& object, const Value& key);
struct SliceBounds {
  std::optional<int64_t> start, stop, step;
};
Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

Value apply_filter(Runtime& runtime, const std::string& name, const Value& input,
                   const Arguments& arguments);
bool apply_test(Runtime& runtime, const std::string& name, const Value& input,
                const Arguments& arguments);
bool has_method(const Value& object, const std::string& name);
Value call_method(Runtime& runtime, const Callable& method, const Arguments& arguments);

}  // namespace plait::jinja
