#include "serve/api_fields.h"

#include <cmath>
#include <utility>

#include "base/json_full.h"
#include "serve/api_error.h"

namespace plait {

ApiFields::ApiFields(const Json& object, std::string path)
    : JsonFields(object), path_(std::move(path)) {
  if (!object.is_object()) {
    const std::string field = path_.empty() ? "" : path_.substr(0, path_.size() - 1);
    refuse_field(field, fmt::format("{} is {}; it must be a JSON object",
                                    field.empty() ? "the body" : field, shown_json(object)));
  }
}

void ApiFields::wrong_type(const char* key, const Json& value, const char* needed) const {
  refuse_field(name_of(key),
               fmt::format("{} is {}; it must be {}", name_of(key), shown_json(value), needed));
}

int64_t to_api_integer(const Json& value, const std::string& field, ApiFields::IntegerRange range) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  std::optional<int64_t> number;
  if (value.is_number_unsigned()) {
    const auto unsigned_value = value.get<uint64_t>();
    if (unsigned_value <= static_cast<uint64_t>(INT64_MAX)) {
      number = static_cast<int64_t>(unsigned_value);
    }
  } else if (value.is_number_integer()) {
    number = value.get<int64_t>();
  } else if (value.is_number_float()) {
    const double real = value.get<double>();
    if (std::abs(real) <= kExact && real == std::floor(real)) {
      number = static_cast<int64_t>(real);
    }
  }
  if (!number || *number < range.least || *number > range.most) {
    std::string allowed = "an integer";
    if (range.least != INT64_MIN && range.most != INT64_MAX) {
      allowed += fmt::format(" from {} to {}", range.least, range.most);
    } else if (range.least != INT64_MIN) {
      allowed += fmt::format(" of at least {}", range.least);
    }
    refuse_field(field, fmt::format("{} is {}; it must be {}", field, shown_json(value), allowed));
  }
  return *number;
}

std::optional<int64_t> ApiFields::integer(const char* key, IntegerRange range) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  return to_api_integer(*value, name_of(key), range);
}

std::optional<double> ApiFields::number(const char* key, NumberRange range) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= range.least && number <= range.most)) {
    refuse_field(name_of(key),
                 fmt::format("{} is {}; it must be a number from {} to {}", name_of(key),
                             shown_json(*value), range.least, range.most));
  }
  return number;
}

const Json* ApiFields::object(const char* key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) {
    wrong_type(key, *value, "an object");
  }
  return value;
}

const Json* ApiFields::list(const char* key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_array()) {
    wrong_type(key, *value, "a list");
  }
  return value;
}

void ApiFields::refuse_if_set(const char* key, const char* reason) const {
  const Json* value = find(key);
  if (value == nullptr || *value == Json(false) || *value == Json(0) || *value == Json(1) ||
      (value->is_string() && value->get_ref<const std::string&>().empty()) ||
      (value->is_structured() && value->empty())) {
    return;
  }
  refuse_field(name_of(key), fmt::format("{} is not supported: {}", name_of(key), reason));
}

}  // namespace plait
