// Methods of strings, dicts, lists and loops.
#include <algorithm>
#include <unordered_map>

#include "text/jinja/runtime.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace plait::jinja {
namespace {

struct MethodCall {
  Runtime& runtime;
  const Value& receiver;
  const Arguments& arguments;

  const MarkedText& text() const { return *receiver.as_text(); }
  const Value* argument(size_t place, const char* name) const {
    const Value* value = arguments.find(place, name);
    return value == nullptr || value->is_none() ? nullptr : value;
  }
  const MarkedText& text_at(size_t place, const char* name) const {
    const Value* value = argument(place, name);
    if (value == nullptr) {
      runtime.fail(fmt::format("the argument '{}' is missing", name));
    }
    return text_argument(runtime, *value, name);
  }
  int64_t integer_at(size_t place, const char* name, int64_t absent) const {
    const Value* value = argument(place, name);
    return value == nullptr ? absent : integer_argument(runtime, *value, name);
  }
};
using Method = Value (*)(const MethodCall&);

Value texts(std::vector<MarkedText> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (MarkedText& part : parts) {
    items.push_back(Value::text(std::move(part)));
  }
  return Value::list(std::move(items));
}

Value stripped(const MethodCall& call, const StripSides& sides) {
  std::optional<std::string> characters;
  if (call.argument(0, "chars") != nullptr) {
    characters = call.text_at(0, "chars").bytes();
  }
  return Value::text(strip(call.text(), characters, sides));
}

Value split_text(const MethodCall& call, bool from_right) {
  SplitOptions options;
  if (call.argument(0, "sep") != nullptr) {
    options.separator = call.text_at(0, "sep").bytes();
    if (options.separator->empty()) {
      call.runtime.fail("split: empty separator");
    }
  }
  options.splits_max = call.integer_at(1, "maxsplit", -1);
  options.from_right = from_right;
  std::vector<MarkedText> parts = split(call.text(), options);
  call.runtime.charge(static_cast<int64_t>(parts.size()));
  return texts(std::move(parts));
}

// A string, or a tuple of them.
bool affixed(const MethodCall& call, bool at_start) {
  const std::string& bytes = call.text().bytes();
  const auto fits = [&](const MarkedText& affix) {
    return at_start ? bytes.starts_with(affix.bytes()) : bytes.ends_with(affix.bytes());
  };
  const Value* argument = call.argument(0, "prefix");
  if (argument != nullptr && argument->as_list() != nullptr && argument->as_list()->is_tuple) {
    return std::ranges::any_of(argument->as_list()->items, [&](const Value& item) {
      return fits(text_argument(call.runtime, item, "prefix"));
    });
  }
  return fits(call.text_at(0, "prefix"));
}

Value found_at(const MethodCall& call, bool from_right) {
  const std::string& part = call.text_at(0, "sub").bytes();
  const std::string& bytes = call.text().bytes();
  const size_t found = from_right ? bytes.rfind(part) : bytes.find(part);
  return Value::integer(found == std::string::npos ? -1 : character_index(bytes, found));
}

Value replaced(const MethodCall& call) {
  Replacement replacement{call.text_at(0, "old").bytes(), call.text_at(1, "new"),
                          call.integer_at(2, "count", -1)};
  // The result may be longer than both: an upper bound is charged first.
  const size_t places = call.text().size() / std::max<size_t>(1, replacement.old_text.size()) + 1;
  call.runtime.charge(static_cast<int64_t>(places));
  call.runtime.charge_text(call.text().size() + places * replacement.new_text.size());
  return Value::text(replace(call.text(), replacement));
}

Value joined(const MethodCall& call) {
  MarkedText result;
  bool first = true;
  const Value* argument = call.argument(0, "iterable");
  for (const Value& item : items_of(call.runtime, argument == nullptr ? Value() : *argument)) {
    if (!first) {
      result.append(call.text());
    }
    first = false;
    result.append(text_argument(call.runtime, item, "an item of join"));
    call.runtime.charge_text(result.size() / 64);
  }
  return Value::text(std::move(result));
}

template <CharClass kind>
Value all_of_class(const MethodCall& call) {
  const std::string& bytes = call.text().bytes();
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = code_point_at(bytes, i);
    const CharClass is = char_class(c.value);
    if (is != kind && !(kind == CharClass::kSpace && is == CharClass::kNewline)) {
      return Value::boolean(false);
    }
    i += c.size;
  }
  return Value::boolean(!bytes.empty());
}

template <CaseChange change>
Value cased(const MethodCall& call) {
  return Value::text(change_case(call.text(), change));
}

const std::unordered_map<std::string, Method>& text_methods() {
  static const std::unordered_map<std::string, Method> methods = {
      {"strip",
       [](const MethodCall& call) {
         return stripped(call, {true, true});
       }},
      {"lstrip",
       [](const MethodCall& call) {
         return stripped(call, {true, false});
       }},
      {"rstrip",
       [](const MethodCall& call) {
         return stripped(call, {false, true});
       }},
      {"split", [](const MethodCall& call) { return split_text(call, false); }},
      {"rsplit", [](const MethodCall& call) { return split_text(call, true); }},
      {"splitlines",
       [](const MethodCall& call) {
         const Value* keep = call.argument(0, "keepends");
         return texts(split_lines(call.text(), keep != nullptr && keep->truth()));
       }},
      {"startswith", [](const MethodCall& call) { return Value::boolean(affixed(call, true)); }},
      {"endswith", [](const MethodCall& call) { return Value::boolean(affixed(call, false)); }},
      {"find", [](const MethodCall& call) { return found_at(call, false); }},
      {"rfind", [](const MethodCall& call) { return found_at(call, true); }},
      {"count",
       [](const MethodCall& call) {
         const std::string& part = call.text_at(0, "sub").bytes();
         if (part.empty()) {
           return Value::integer(character_count(call.text().bytes()) + 1);
         }
         int64_t count = 0;
         const std::string& bytes = call.text().bytes();
         for (size_t at = 0; (at = bytes.find(part, at)) != std::string::npos; at += part.size()) {
           ++count;
         }
         return Value::integer(count);
       }},
      {"replace", replaced},
      {"join", joined},
      {"upper", cased<CaseChange::kUpper>},
      {"lower", cased<CaseChange::kLower>},
      {"title", cased<CaseChange::kTitle>},
      {"capitalize", cased<CaseChange::kCapitalize>},
      {"isdigit", all_of_class<CharClass::kNumber>},
      {"isalpha", all_of_class<CharClass::kLetter>},
      {"isspace", all_of_class<CharClass::kSpace>},
  };
  return methods;
}

std::vector<Value> dict_part(const MethodCall& call, bool keys, bool values) {
  std::vector<Value> items;
  const std::vector<Dict::Entry>& entries = call.receiver.as_dict()->entries();
  call.runtime.charge(static_cast<int64_t>(entries.size()));
  for (const auto& [key, value] : entries) {
    items.push_back(keys && values ? Value::list({key, value}, true) : keys ? key : value);
  }
  return items;
}

const std::unordered_map<std::string, Method>& dict_methods() {
  static const std::unordered_map<std::string, Method> methods = {
      {"items", [](const MethodCall& call) { return Value::list(dict_part(call, true, true)); }},
      {"keys", [](const MethodCall& call) { return Value::list(dict_part(call, true, false)); }},
      {"values", [](const MethodCall& call) { return Value::list(dict_part(call, false, true)); }},
      {"get",
       [](const MethodCall& call) {
         const Value* key = call.arguments.find(0, "key");
         if (key == nullptr) {
           call.runtime.fail("get: the argument 'key' is missing");
         }
         const Value* value = call.receiver.as_dict()->find(*key);
         const Value* absent = call.arguments.find(1, "default");
         return value != nullptr ? *value : absent != nullptr ? *absent : Value::none();
       }},
  };
  return methods;
}

const std::unordered_map<std::string, Method>& list_methods() {
  static const std::unordered_map<std::string, Method> methods = {
      {"index",
       [](const MethodCall& call) {
         const std::vector<Value>& items = call.receiver.as_list()->items;
         const Value* wanted = call.arguments.find(0, "value");
         for (size_t i = 0; wanted != nullptr && i < items.size(); ++i) {
           if (equal(items[i], *wanted)) {
             return Value::integer(static_cast<int64_t>(i));
           }
         }
         call.runtime.fail("index: the value is not in the list");
       }},
      {"count",
       [](const MethodCall& call) {
         const Value* wanted = call.arguments.find(0, "value");
         return Value::integer(std::ranges::count_if(
             call.receiver.as_list()->items,
             [&](const Value& item) { return wanted != nullptr && equal(item, *wanted); }));
       }},
  };
  return methods;
}

const std::unordered_map<std::string, Method>& loop_methods() {
  static const std::unordered_map<std::string, Method> methods = {
      {"cycle",
       [](const MethodCall& call) {
         const std::vector<Value>& items = call.arguments.positional;
         if (items.empty()) {
           call.runtime.fail("loop.cycle needs an argument");
         }
         const auto index = static_cast<size_t>((*call.receiver.get<Value::LoopPtr>())->index);
         return items[index % items.size()];
       }},
      {"changed",
       [](const MethodCall& call) {
         Loop& loop = **call.receiver.get<Value::LoopPtr>();
         const Value seen = Value::list(call.arguments.positional);
         const bool changed = !loop.changed || !equal(*loop.changed, seen);
         loop.changed = std::make_shared<const Value>(seen);
         return Value::boolean(changed);
       }},
  };
  return methods;
}

const std::unordered_map<std::string, Method>& methods_of(const Value& object) {
  static const std::unordered_map<std::string, Method> none;
  if (object.as_text() != nullptr) {
    return text_methods();
  }
  if (object.as_dict() != nullptr) {
    return object.as_dict()->is_namespace ? none : dict_methods();
  }
  if (object.as_list() != nullptr) {
    return list_methods();
  }
  return object.get<Value::LoopPtr>() != nullptr ? loop_methods() : none;
}

}  // namespace

bool has_method(const Value& object, const std::string& name) {
  return methods_of(object).contains(name);
}

Value call_method(Runtime& runtime, const Callable& method, const Arguments& arguments) {
  const Value& receiver = *method.receiver;
  const auto found = methods_of(receiver).find(method.name);
  if (found == methods_of(receiver).end()) {
    runtime.fail(fmt::format("'{}' has no method '{}'", receiver.type_name(), method.name));
  }
  if (receiver.as_text() != nullptr) {
    runtime.charge_text(receiver.as_text()->size());
  }
  return found->second({runtime, receiver, arguments});
}

}  // namespace plait::jinja
