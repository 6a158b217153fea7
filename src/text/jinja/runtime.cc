#include "text/jinja/runtime.h"

#include <algorithm>

#include "text/jinja/text_ops.h"

namespace plait::jinja {
namespace {

Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto size = static_cast<int64_t>(loop.items->items.size());
  const auto item = [&](int64_t index) {
    return index >= 0 && index < size ? loop.items->items[static_cast<size_t>(index)]
                                      : Value::undefined("there is no such item in the loop");
  };
  if (name == "index") {
    return Value::integer(loop.index + 1);
  }
  if (name == "index0") {
    return Value::integer(loop.index);
  }
  if (name == "revindex") {
    return Value::integer(size - loop.index);
  }
  if (name == "revindex0") {
    return Value::integer(size - loop.index - 1);
  }
  if (name == "first" || name == "last") {
    return Value::boolean(loop.index == (name == "first" ? 0 : size - 1));
  }
  if (name == "length") {
    return Value::integer(size);
  }
  if (name == "previtem" || name == "nextitem") {
    return item(loop.index + (name == "previtem" ? -1 : 1));
  }
  if (name == "depth" || name == "depth0") {
    return Value::integer(name == "depth" ? 1 : 0);  // loops are never recursive
  }
  return Value::undefined("the loop has no attribute '" + name + "'");
}

std::string key_text(const Value& key) {
  const MarkedText* text = key.as_text();
  return text != nullptr ? "'" + text->bytes() + "'" : to_text(key).bytes();
}

// The item at a Python index, or npos.
size_t place_of(int64_t index, size_t size) {
  const auto length = static_cast<int64_t>(size);
  const int64_t place = index < 0 ? index + length : index;
  return place >= 0 && place < length ? static_cast<size_t>(place) : std::string::npos;
}

}  // namespace

const Value* Arguments::find(size_t place, const char* name) const {
  if (place < positional.size()) {
    return &positional[place];
  }
  for (const auto& [keyword, value] : keywords) {
    if (keyword == name) {
      return &value;
    }
  }
  return nullptr;
}

void Arguments::check(const Runtime& runtime, const std::string& callee,
                      const std::vector<std::string>& names) const {
  if (positional.size() > names.size()) {
    runtime.fail(fmt::format("{} takes at most {} arguments, {} are given", callee, names.size(),
                             positional.size()));
  }
  for (const auto& [keyword, value] : keywords) {
    if (std::ranges::find(names, keyword) == names.end()) {
      runtime.fail(fmt::format("{} has no parameter '{}'", callee, keyword));
    }
  }
}

void require_defined(const Runtime& runtime, const Value& value) {
  if (const auto* undefined = value.get<Undefined>()) {
    runtime.fail(undefined->reason.empty() ? "a value is undefined" : undefined->reason);
  }
}

const MarkedText& text_argument(const Runtime& runtime, const Value& value, const char* what) {
  require_defined(runtime, value);
  const MarkedText* text = value.as_text();
  if (text == nullptr) {
    runtime.fail(fmt::format("{} must be a string, not {}", what, value.type_name()));
  }
  return *text;
}

int64_t integer_argument(const Runtime& runtime, const Value& value, const char* what) {
  require_defined(runtime, value);
  const std::optional<int64_t> integer = value.as_integer();
  if (!integer) {
    runtime.fail(fmt::format("{} must be an integer, not {}", what, value.type_name()));
  }
  return *integer;
}

std::vector<Value> items_of(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (const List* list = value.as_list()) {
    items = list->items;
  } else if (const MarkedText* text = value.as_text()) {
    runtime.charge(static_cast<int64_t>(text->size()));
    for (MarkedText& character : characters(*text)) {
      items.push_back(Value::text(std::move(character)));
    }
  } else if (const Dict* dict = value.as_dict(); dict != nullptr && !dict->is_namespace) {
    for (const auto& [key, item] : dict->entries()) {
      items.push_back(key);
    }
  } else if (!value.is_undefined()) {
    runtime.fail(fmt::format("'{}' object is not iterable", value.type_name()));
  }
  runtime.charge(static_cast<int64_t>(items.size()));
  return items;
}

int64_t length_of(const Runtime& runtime, const Value& value) {
  if (const List* list = value.as_list()) {
    return static_cast<int64_t>(list->items.size());
  }
  if (const MarkedText* text = value.as_text()) {
    return character_count(text->bytes());
  }
  if (const Dict* dict = value.as_dict(); dict != nullptr && !dict->is_namespace) {
    return static_cast<int64_t>(dict->entries().size());
  }
  if (value.is_undefined()) {
    return 0;
  }
  runtime.fail(fmt::format("object of type '{}' has no len()", value.type_name()));
}

int compare(const Runtime& runtime, const Value& a, const Value& b) {
  require_defined(runtime, a);
  require_defined(runtime, b);
  if (a.as_integer() && b.as_integer()) {
    return *a.as_integer() < *b.as_integer() ? -1 : *a.as_integer() > *b.as_integer() ? 1 : 0;
  }
  if (a.as_number() && b.as_number()) {
    return *a.as_number() < *b.as_number() ? -1 : *a.as_number() > *b.as_number() ? 1 : 0;
  }
  if (a.as_text() != nullptr && b.as_text() != nullptr) {
    // UTF-8 sorts as code points do.
    const int order = a.as_text()->bytes().compare(b.as_text()->bytes());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.as_list() != nullptr && b.as_list() != nullptr) {
    const std::vector<Value>& left = a.as_list()->items;
    const std::vector<Value>& right = b.as_list()->items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!equal(left[i], right[i])) {
        return compare(runtime, left[i], right[i]);
      }
    }
    return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
  }
  runtime.fail(
      fmt::format("'<' is not supported between '{}' and '{}'", a.type_name(), b.type_name()));
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (const MarkedText* text = container.as_text()) {
    runtime.charge_text(text->size());
    return text->bytes().find(text_argument(runtime, item, "the left side of 'in'").bytes()) !=
           std::string::npos;
  }
  if (const List* list = container.as_list()) {
    runtime.charge(static_cast<int64_t>(list->items.size()));
    return std::ranges::any_of(list->items, [&](const Value& each) { return equal(each, item); });
  }
  if (const Dict* dict = container.as_dict(); dict != nullptr && !dict->is_namespace) {
    return dict->find(item) != nullptr;
  }
  if (container.is_undefined()) {
    return false;
  }
  runtime.fail(fmt::format("argument of type '{}' is not iterable", container.type_name()));
}

Value get_attribute(Runtime& runtime, const Value& object, const std::string& name) {
  require_defined(runtime, object);
  if (const auto* loop = object.get<Value::LoopPtr>()) {
    if (name != "cycle" && name != "changed") {
      return loop_attribute(**loop, name);
    }
  }
  if (has_method(object, name)) {
    return Value::callable({name, std::make_shared<Value>(object), nullptr});
  }
  if (const Dict* dict = object.as_dict()) {
    if (const Value* value = dict->find(name)) {
      return *value;
    }
  }
  return Value::undefined(
      fmt::format("'{} object' has no attribute '{}'", object.type_name(), name));
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  require_defined(runtime, object);
  if (const Dict* dict = object.as_dict()) {
    if (const Value* value = dict->find(key)) {
      return *value;
    }
  }
  const std::optional<int64_t> index = key.as_integer();
  if (const List* list = object.as_list(); list != nullptr && index) {
    const size_t place = place_of(*index, list->items.size());
    return place == std::string::npos ? Value::undefined(fmt::format("{} object has no element {}",
                                                                     object.type_name(), *index))
                                      : list->items[place];
  }
  if (const MarkedText* text = object.as_text(); text != nullptr && index) {
    std::vector<Value> all = items_of(runtime, object);
    const size_t place = place_of(*index, all.size());
    return place == std::string::npos
               ? Value::undefined(fmt::format("str object has no element {}", *index))
               : all[place];
  }
  if (const MarkedText* name = key.as_text();
      name != nullptr && has_method(object, name->bytes())) {
    return get_attribute(runtime, object, name->bytes());
  }
  return Value::undefined(
      fmt::format("'{} object' has no attribute {}", object.type_name(), key_text(key)));
}

Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  require_defined(runtime, object);
  if (object.as_list() == nullptr && object.as_text() == nullptr) {
    runtime.fail(fmt::format("'{}' object cannot be sliced", object.type_name()));
  }
  const int64_t step = bounds.step.value_or(1);
  if (step == 0) {
    runtime.fail("slice step cannot be zero");
  }
  const std::vector<Value> items = items_of(runtime, object);
  const auto size = static_cast<int64_t>(items.size());
  // Python's clamping: a bound beyond an end stands for that end.
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto place = [&](const std::optional<int64_t>& bound, int64_t absent) {
    return bound ? std::clamp(*bound < 0 ? *bound + size : *bound, low, high) : absent;
  };
  const int64_t start = place(bounds.start, step > 0 ? low : high);
  const int64_t stop = place(bounds.stop, step > 0 ? high : low);
  std::vector<Value> taken;
  int64_t left = size;  // keeps a huge step from overflowing
  for (int64_t i = start; left > 0 && (step > 0 ? i < stop : i > stop); --left) {
    taken.push_back(items[static_cast<size_t>(i)]);
    if (step > size || step < -size) {
      break;
    }
    i += step;
  }
  if (const List* list = object.as_list()) {
    return Value::list(std::move(taken), list->is_tuple);
  }
  MarkedText text;
  for (const Value& character : taken) {
    text.append(*character.as_text());
  }
  return Value::text(std::move(text));
}

}  // namespace plait::jinja
