// The tests behind `is`.
#include <cmath>
#include <functional>
#include <unordered_map>

#include "text/jinja/parser.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text_ops.h"

namespace plait::jinja {
namespace {

using Test = std::function<bool(Runtime&, const Value&, const Arguments&)>;

const Value& operand(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() != 1) {
    runtime.fail("the test needs one argument");
  }
  return arguments.positional.front();
}

// `accept` gets the order of the two values.
Test ordered(bool (*accept)(int order)) {
  return [accept](Runtime& runtime, const Value& value, const Arguments& arguments) {
    return accept(compare(runtime, value, operand(runtime, arguments)));
  };
}

Test of_kind(bool (*accept)(const Value&)) {
  return [accept](Runtime&, const Value& value, const Arguments&) { return accept(value); };
}

bool is_plain_dict(const Value& value) {
  return value.as_dict() != nullptr && !value.as_dict()->is_namespace;
}

bool is_case(const Value& value, CaseChange change) {
  const MarkedText text = to_text(value);
  const CaseChange other = change == CaseChange::kUpper ? CaseChange::kLower : CaseChange::kUpper;
  return change_case(text, change).bytes() == text.bytes() &&
         change_case(text, other).bytes() != text.bytes();
}

int64_t remainder_of(Runtime& runtime, const Value& value, int64_t divisor) {
  if (divisor == 0) {
    runtime.fail("division by zero");
  }
  const int64_t number = integer_argument(runtime, value, "the tested value");
  return divisor == -1 ? 0 : number % divisor;
}

std::unordered_map<std::string, Test> make_tests() {
  std::unordered_map<std::string, Test> tests;
  tests["defined"] = of_kind([](const Value& value) { return !value.is_undefined(); });
  tests["undefined"] = of_kind([](const Value& value) { return value.is_undefined(); });
  tests["none"] = of_kind([](const Value& value) { return value.is_none(); });
  tests["boolean"] = of_kind([](const Value& value) { return value.get<bool>() != nullptr; });
  tests["true"] = of_kind(
      [](const Value& value) { return value.get<bool>() != nullptr && *value.get<bool>(); });
  tests["false"] = of_kind(
      [](const Value& value) { return value.get<bool>() != nullptr && !*value.get<bool>(); });
  tests["integer"] = of_kind([](const Value& value) { return value.get<int64_t>() != nullptr; });
  tests["float"] = of_kind([](const Value& value) { return value.get<double>() != nullptr; });
  tests["number"] = of_kind([](const Value& value) { return value.as_number().has_value(); });
  tests["string"] = of_kind([](const Value& value) { return value.as_text() != nullptr; });
  tests["mapping"] = of_kind(is_plain_dict);
  tests["sequence"] = of_kind([](const Value& value) {
    return value.as_text() != nullptr || value.as_list() != nullptr || is_plain_dict(value) ||
           value.is_undefined();
  });
  tests["iterable"] = tests["sequence"];
  tests["callable"] =
      of_kind([](const Value& value) { return value.get<Value::CallablePtr>() != nullptr; });
  tests["upper"] = of_kind([](const Value& value) { return is_case(value, CaseChange::kUpper); });
  tests["lower"] = of_kind([](const Value& value) { return is_case(value, CaseChange::kLower); });
  tests["odd"] = [](Runtime& runtime, const Value& value, const Arguments&) {
    return remainder_of(runtime, value, 2) != 0;
  };
  tests["even"] = [](Runtime& runtime, const Value& value, const Arguments&) {
    return remainder_of(runtime, value, 2) == 0;
  };
  tests["divisibleby"] = [](Runtime& runtime, const Value& value, const Arguments& arguments) {
    return remainder_of(runtime, value,
                        integer_argument(runtime, operand(runtime, arguments), "divisor")) == 0;
  };
  tests["in"] = [](Runtime& runtime, const Value& value, const Arguments& arguments) {
    return contains(runtime, operand(runtime, arguments), value);
  };
  const Test same = [](Runtime& runtime, const Value& value, const Arguments& arguments) {
    return equal(value, operand(runtime, arguments));
  };
  for (const char* name : {"eq", "equalto", "==", "sameas"}) {
    tests[name] = same;
  }
  tests["ne"] = [same](Runtime& runtime, const Value& value, const Arguments& arguments) {
    return !same(runtime, value, arguments);
  };
  tests["!="] = tests["ne"];
  tests["lt"] = tests["lessthan"] = tests["<"] = ordered([](int order) { return order < 0; });
  tests["le"] = tests["<="] = ordered([](int order) { return order <= 0; });
  tests["gt"] = tests["greaterthan"] = tests[">"] = ordered([](int order) { return order > 0; });
  tests["ge"] = tests[">="] = ordered([](int order) { return order >= 0; });
  return tests;
}

const std::unordered_map<std::string, Test>& all_tests() {
  static const std::unordered_map<std::string, Test> tests = make_tests();
  return tests;
}

}  // namespace

bool is_test(const std::string& name) {
  return all_tests().contains(name);
}

bool apply_test(Runtime& runtime, const std::string& name, const Value& input,
                const Arguments& arguments) {
  const auto found = all_tests().find(name);
  if (found == all_tests().end()) {
    runtime.fail("there is no test '" + name + "'");
  }
  return found->second(runtime, input, arguments);
}

}  // namespace plait::jinja
