// Shared by the files of filters. Internal to jinja/.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "text/jinja/runtime.h"

namespace plait::jinja {

struct FilterCall {
  Runtime& runtime;
  const Value& input;
  const Arguments& arguments;
  const char* name;

  const Value* find(size_t place, const char* parameter) const {
    return arguments.find(place, parameter);
  }
  int64_t integer(size_t place, const char* parameter, int64_t absent) const {
    const Value* value = find(place, parameter);
    return value == nullptr || value->is_none() ? absent
                                                : integer_argument(runtime, *value, parameter);
  }
  bool flag(size_t place, const char* parameter, bool absent) const {
    const Value* value = find(place, parameter);
    return value == nullptr ? absent : value->truth();
  }
  // str() of the input, whose length is charged.
  MarkedText text() const {
    MarkedText text = to_text(input);
    runtime.charge_text(text.size());
    return text;
  }
};

using Filter = Value (*)(const FilterCall&);
void add_text_filters(std::unordered_map<std::string, Filter>& filters);
void add_list_filters(std::unordered_map<std::string, Filter>& filters);

}  // namespace plait::jinja
