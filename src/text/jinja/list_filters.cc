// Filters of lists and dicts.
#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/parser.h"
#include "text/jinja/text_ops.h"

namespace plait::jinja {
namespace {

// A dotted path, as map(attribute="a.b") takes it.
Value attribute_path(Runtime& runtime, Value value, const Value& path) {
  if (path.as_integer()) {
    return get_item(runtime, value, path);
  }
  for (const MarkedText& name : split(text_argument(runtime, path, "attribute"), {"."})) {
    value = get_item(runtime, value, Value::text(name));
  }
  return value;
}

Value ignoring_case(const Value& value) {
  const MarkedText* text = value.as_text();
  return text == nullptr ? value : Value::text(change_case(*text, CaseChange::kLower));
}

Value joined(const FilterCall& call) {
  const Value* separator = call.find(0, "d");
  const MarkedText between = separator == nullptr ? MarkedText() : to_text(*separator);
  const Value* attribute = call.find(1, "attribute");
  MarkedText result;
  bool first = true;
  for (const Value& item : items_of(call.runtime, call.input)) {
    if (!first) {
      result.append(between);
    }
    first = false;
    const MarkedText part =
        to_text(attribute == nullptr ? item : attribute_path(call.runtime, item, *attribute));
    call.runtime.charge_text(part.size() + between.size());
    result.append(part);
  }
  call.runtime.charge_text(result.size());
  return Value::text(std::move(result));
}

Value mapped(const FilterCall& call) {
  std::vector<Value> results;
  const Value* attribute = nullptr;
  const Value* absent = nullptr;
  for (const auto& [name, value] : call.arguments.keywords) {
    attribute = name == "attribute" ? &value : attribute;
    absent = name == "default" ? &value : absent;
  }
  Arguments inner;
  std::string filter;
  if (attribute == nullptr) {
    if (call.arguments.positional.empty()) {
      call.runtime.fail("map needs a filter's name or attribute=");
    }
    filter = text_argument(call.runtime, call.arguments.positional.front(), "filter").bytes();
    if (!is_filter(filter)) {
      call.runtime.fail("there is no filter '" + filter + "'");
    }
    inner.positional.assign(call.arguments.positional.begin() + 1, call.arguments.positional.end());
    inner.keywords = call.arguments.keywords;
  }
  for (const Value& item : items_of(call.runtime, call.input)) {
    if (attribute == nullptr) {
      results.push_back(apply_filter(call.runtime, filter, item, inner));
      continue;
    }
    Value value = attribute_path(call.runtime, item, *attribute);
    if (value.is_undefined() && absent != nullptr) {
      results.push_back(*absent);
    } else {
      results.push_back(std::move(value));
    }
  }
  return Value::list(std::move(results));
}

struct Selection {
  bool by_attribute = false;
  bool keep = true;  // what the test accepts; else what it rejects
};

Value selected(const FilterCall& call, const Selection& selection) {
  Arguments inner;
  inner.positional = call.arguments.positional;
  inner.keywords = call.arguments.keywords;
  const auto take_first = [&](const char* what) {
    if (inner.positional.empty()) {
      call.runtime.fail(fmt::format("{}: {} is missing", call.name, what));
    }
    Value first = inner.positional.front();
    inner.positional.erase(inner.positional.begin());
    return first;
  };
  const Value attribute = selection.by_attribute ? take_first("the attribute") : Value();
  std::string test;
  if (!inner.positional.empty()) {
    test = text_argument(call.runtime, take_first("the test"), "test").bytes();
    if (!is_test(test)) {
      call.runtime.fail("there is no test '" + test + "'");
    }
  }
  std::vector<Value> results;
  for (const Value& item : items_of(call.runtime, call.input)) {
    const Value value =
        selection.by_attribute ? attribute_path(call.runtime, item, attribute) : item;
    const bool accepted =
        test.empty() ? value.truth() : apply_test(call.runtime, test, value, inner);
    if (accepted == selection.keep) {
      results.push_back(item);
    }
  }
  return Value::list(std::move(results));
}

void sort_values(Runtime& runtime, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  // Compared beforehand: a comparison that throws inside a sort would leave it half done.
  for (size_t i = 1; i < keyed.size(); ++i) {
    compare(runtime, keyed[0].first, keyed[i].first);
    runtime.charge(8);
  }
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    const int order = compare(runtime, a.first, b.first);
    return reverse ? order > 0 : order < 0;
  });
}

Value sorted(const FilterCall& call) {
  const bool reverse = call.flag(0, "reverse", false);
  const bool case_sensitive = call.flag(1, "case_sensitive", false);
  const Value* attribute = call.find(2, "attribute");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items_of(call.runtime, call.input)) {
    Value key = attribute == nullptr ? item : attribute_path(call.runtime, item, *attribute);
    keyed.emplace_back(case_sensitive ? std::move(key) : ignoring_case(key), item);
  }
  sort_values(call.runtime, keyed, reverse);
  std::vector<Value> results;
  for (auto& [key, item] : keyed) {
    results.push_back(std::move(item));
  }
  return Value::list(std::move(results));
}

Value sorted_dict(const FilterCall& call) {
  const Dict* dict = call.input.as_dict();
  if (dict == nullptr || dict->is_namespace) {
    call.runtime.fail("dictsort needs a mapping");
  }
  const bool case_sensitive = call.flag(0, "case_sensitive", false);
  const Value* by = call.find(1, "by");
  const bool by_value = by != nullptr && to_text(*by).bytes() == "value";
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : dict->entries()) {
    const Value& part = by_value ? value : key;
    keyed.emplace_back(case_sensitive ? part : ignoring_case(part),
                       Value::list({key, value}, true));
  }
  sort_values(call.runtime, keyed, call.flag(2, "reverse", false));
  std::vector<Value> results;
  for (auto& [key, item] : keyed) {
    results.push_back(std::move(item));
  }
  return Value::list(std::move(results));
}

Value unique_items(const FilterCall& call) {
  const bool case_sensitive = call.flag(0, "case_sensitive", false);
  std::vector<Value> seen;
  std::vector<Value> results;
  for (const Value& item : items_of(call.runtime, call.input)) {
    const Value key = case_sensitive ? item : ignoring_case(item);
    call.runtime.charge(static_cast<int64_t>(seen.size()));
    const bool is_new =
        std::ranges::none_of(seen, [&](const Value& other) { return equal(other, key); });
    if (is_new) {
      seen.push_back(key);
      results.push_back(item);
    }
  }
  return Value::list(std::move(results));
}

Value dict_items(const FilterCall& call) {
  if (call.input.is_undefined()) {
    return Value::list({});
  }
  if (call.input.as_dict() == nullptr || call.input.as_dict()->is_namespace) {
    call.runtime.fail("items: can only get item pairs from a mapping");
  }
  return call_method(call.runtime, {"items", std::make_shared<Value>(call.input), nullptr}, {});
}

Value reversed(const FilterCall& call) {
  require_defined(call.runtime, call.input);
  std::vector<Value> items = items_of(call.runtime, call.input);
  std::ranges::reverse(items);
  if (call.input.as_text() == nullptr) {
    return Value::list(std::move(items));
  }
  MarkedText text;
  for (const Value& item : items) {
    text.append(*item.as_text());
  }
  return Value::text(std::move(text));
}

Value summed(const FilterCall& call) {
  const Value* attribute = call.find(0, "attribute");
  const Value* start = call.find(1, "start");
  int64_t integers = 0;
  double numbers = 0;
  bool is_float = false;
  std::vector<Value> items = items_of(call.runtime, call.input);
  for (Value& item : items) {
    item = attribute == nullptr ? item : attribute_path(call.runtime, item, *attribute);
  }
  if (start != nullptr) {
    items.push_back(*start);
  }
  for (const Value& item : items) {
    if (!item.as_number()) {
      call.runtime.fail(fmt::format("sum: '{}' is no number", item.type_name()));
    }
    is_float = is_float || !item.as_integer();
    numbers += *item.as_number();
    if (__builtin_add_overflow(integers, item.as_integer().value_or(0), &integers)) {
      call.runtime.fail("sum: the result does not fit 64 bits");
    }
  }
  return is_float ? Value::number(numbers) : Value::integer(integers);
}

Value extreme(const FilterCall& call, int wanted) {
  const bool case_sensitive = call.flag(0, "case_sensitive", false);
  const Value* attribute = call.find(1, "attribute");
  Value best = Value::undefined("no item is there to choose from");
  Value best_key;
  for (const Value& item : items_of(call.runtime, call.input)) {
    Value key = attribute == nullptr ? item : attribute_path(call.runtime, item, *attribute);
    key = case_sensitive ? key : ignoring_case(key);
    if (best.is_undefined() || compare(call.runtime, key, best_key) == wanted) {
      best = item;
      best_key = key;
    }
  }
  return best;
}

Value end_item(const FilterCall& call, bool first) {
  const std::vector<Value> items = items_of(call.runtime, call.input);
  if (items.empty()) {
    return Value::undefined("the sequence is empty");
  }
  return first ? items.front() : items.back();
}

}  // namespace

void add_list_filters(std::unordered_map<std::string, Filter>& filters) {
  filters["join"] = joined;
  filters["map"] = mapped;
  filters["select"] = [](const FilterCall& call) { return selected(call, {false, true}); };
  filters["reject"] = [](const FilterCall& call) { return selected(call, {false, false}); };
  filters["selectattr"] = [](const FilterCall& call) { return selected(call, {true, true}); };
  filters["rejectattr"] = [](const FilterCall& call) { return selected(call, {true, false}); };
  filters["sort"] = sorted;
  filters["dictsort"] = sorted_dict;
  filters["unique"] = unique_items;
  filters["items"] = dict_items;
  filters["reverse"] = reversed;
  filters["sum"] = summed;
  filters["min"] = [](const FilterCall& call) { return extreme(call, -1); };
  filters["max"] = [](const FilterCall& call) { return extreme(call, 1); };
  filters["first"] = [](const FilterCall& call) { return end_item(call, true); };
  filters["last"] = [](const FilterCall& call) { return end_item(call, false); };
  filters["list"] = [](const FilterCall& call) {
    return Value::list(items_of(call.runtime, call.input));
  };
  filters["length"] = [](const FilterCall& call) {
    return Value::integer(length_of(call.runtime, call.input));
  };
  filters["count"] = filters["length"];
}

}  // namespace plait::jinja
