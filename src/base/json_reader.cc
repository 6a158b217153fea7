#include "base/json_reader.h"

#include <utility>

#include "base/error.h"
#include "base/json_full.h"
#include "base/text.h"

namespace plait {

std::string shown_json(const Json& value) {
  static constexpr size_t kShownMax = 60;
  return shortened(dump_json(value), kShownMax);
}

const Json* JsonFields::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::flag(const char* key, bool otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_boolean()) {
    wrong_type(key, *value, "true or false");
  }
  return value->get<bool>();
}

std::optional<std::string> JsonFields::text(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    wrong_type(key, *value, "a string");
  }
  return value->get<std::string>();
}

JsonReader::JsonReader(const Json& object, std::string origin)
    : JsonFields(object), origin_(std::move(origin)) {
  if (!object.is_object()) {
    throw_error(ErrorCode::kCorruptData, "{}: a JSON object is needed, found {}", origin_,
                shown_json(object));
  }
}

bool JsonReader::has(const char* key) const {
  return object_value().contains(key);
}

std::optional<int64_t> JsonReader::integer(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  return to_integer(key, *value);
}

int64_t JsonReader::to_integer(const char* key, const Json& value) const {
  if (!value.is_number_integer()) {
    wrong_type(key, value, "an integer");
  }
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    wrong_type(key, value, "a 64-bit integer");
  }
  return value.get<int64_t>();
}

int64_t JsonReader::required_integer(const char* key) const {
  const std::optional<int64_t> value = integer(key);
  if (!value) {
    missing(key);
  }
  return *value;
}

std::optional<double> JsonReader::number(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number()) {
    wrong_type(key, *value, "a number");
  }
  return value->get<double>();
}

double JsonReader::required_number(const char* key) const {
  const std::optional<double> value = number(key);
  if (!value) {
    missing(key);
  }
  return *value;
}

std::string JsonReader::required_text(const char* key) const {
  std::optional<std::string> value = text(key);
  if (!value) {
    missing(key);
  }
  return *std::move(value);
}

void JsonReader::wrong_type(const char* key, const Json& value, const char* needed) const {
  throw_error(ErrorCode::kCorruptData, "{}: {} is {}, but must be {}", origin_, key,
              shown_json(value), needed);
}

void JsonReader::missing(const char* key) const {
  throw_error(ErrorCode::kCorruptData, "{}: {} is missing; check that this is the right file",
              origin_, key);
}

}  // namespace plait
