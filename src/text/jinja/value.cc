#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"

namespace plait::jinja {
namespace {

int64_t depth_with(int64_t depth, const Value& inner) {
  if (inner.depth() >= kValueDepthMax) {
    throw_error(ErrorCode::kInvalidArgument,
                "chat template: values nest deeper than {} levels, or a namespace, loop or "
                "function is put into another value",
                kValueDepthMax);
  }
  return std::max(depth, inner.depth() + 1);
}

}  // namespace

const Value* Dict::find(const std::string& key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Value* Dict::find(const Value& key) const {
  if (key.as_text() != nullptr) {
    return find(key.as_text()->bytes());
  }
  for (const auto& [name, value] : entries_) {
    if (equal(name, key)) {
      return &value;
    }
  }
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  depth_ = depth_with(depth_with(depth_, key), value);
  if (key.as_text() != nullptr) {
    const auto known = index_.find(key.as_text()->bytes());
    if (known != index_.end()) {
      entries_[known->second].second = std::move(value);
      return;
    }
  } else if (find(key) != nullptr) {
    const auto same = [&](const Entry& entry) { return equal(entry.first, key); };
    std::ranges::find_if(entries_, same)->second = std::move(value);
    return;
  }
  if (key.as_text() != nullptr) {
    index_.emplace(key.as_text()->bytes(), entries_.size());
  }
  entries_.emplace_back(key, std::move(value));
}

Value Value::list(std::vector<Value> items, bool is_tuple) {
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  for (const Value& item : list->items) {
    list->depth = depth_with(list->depth, item);
  }
  list->is_tuple = is_tuple;
  return Value(Data(ListPtr(std::move(list))));
}

Value Value::dict(Dict dict) {
  return Value(Data(std::make_shared<Dict>(std::move(dict))));
}

Value Value::callable(Callable callable) {
  return Value(Data(CallablePtr(std::make_shared<Callable>(std::move(callable)))));
}

const MarkedText* Value::as_text() const {
  const auto* text = get<TextPtr>();
  return text == nullptr ? nullptr : text->get();
}

const List* Value::as_list() const {
  const auto* list = get<ListPtr>();
  return list == nullptr ? nullptr : list->get();
}

Dict* Value::as_dict() const {
  const auto* dict = get<DictPtr>();
  return dict == nullptr ? nullptr : dict->get();
}

std::optional<int64_t> Value::as_integer() const {
  if (const auto* integer = get<int64_t>()) {
    return *integer;
  }
  if (const auto* boolean = get<bool>()) {
    return *boolean ? 1 : 0;
  }
  return std::nullopt;
}

std::optional<double> Value::as_number() const {
  if (const auto* number = get<double>()) {
    return *number;
  }
  const std::optional<int64_t> integer = as_integer();
  return integer ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
}

bool Value::truth() const {
  if (is_undefined() || is_none()) {
    return false;
  }
  if (as_text() != nullptr) {
    return !as_text()->empty();
  }
  if (as_list() != nullptr) {
    return !as_list()->items.empty();
  }
  if (as_dict() != nullptr) {
    return as_dict()->is_namespace || !as_dict()->entries().empty();
  }
  const std::optional<double> number = as_number();
  return !number || *number != 0;
}

int64_t Value::depth() const {
  if (const List* list = as_list()) {
    return list->depth;
  }
  if (const Dict* dict = as_dict()) {
    return dict->is_namespace ? kValueDepthMax : dict->depth();
  }
  const bool opaque = get<LoopPtr>() != nullptr || get<CallablePtr>() != nullptr;
  return opaque ? kValueDepthMax : 0;
}

const char* Value::type_name() const {
  static constexpr const char* kNames[] = {"Undefined",   "NoneType", "bool", "int",
                                           "float",       "str",      "list", "dict",
                                           "LoopContext", "function"};
  if (as_list() != nullptr && as_list()->is_tuple) {
    return "tuple";
  }
  return kNames[data_.index()];
}

bool equal(const Value& a, const Value& b) {
  const std::optional<double> number = a.as_number();
  if (number) {
    if (a.as_integer() && b.as_integer()) {
      return a.as_integer() == b.as_integer();
    }
    return b.as_number() && *number == *b.as_number();
  }
  if (a.as_text() != nullptr) {
    return b.as_text() != nullptr && a.as_text()->bytes() == b.as_text()->bytes();
  }
  if (const List* list = a.as_list()) {
    const List* other = b.as_list();
    if (other == nullptr || other->is_tuple != list->is_tuple ||
        other->items.size() != list->items.size()) {
      return false;
    }
    for (size_t i = 0; i < list->items.size(); ++i) {
      if (!equal(list->items[i], other->items[i])) {
        return false;
      }
    }
    return true;
  }
  if (const Dict* dict = a.as_dict()) {
    const Dict* other = b.as_dict();
    if (other == nullptr || other->entries().size() != dict->entries().size()) {
      return false;
    }
    for (const auto& [key, value] : dict->entries()) {
      const Value* twin = other->find(key);
      if (twin == nullptr || !equal(value, *twin)) {
        return false;
      }
    }
    return true;
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

std::string float_text(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-inf" : "inf";
  }
  // fmt gives the shortest digits that read back equal, and an exponent where Python does: from
  // 1e16 and below 1e-4.
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) {
    text += ".0";
  }
  return text;
}

}  // namespace plait::jinja
