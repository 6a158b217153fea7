// Typed access to the fields of a request's JSON object. null counts as absent, as clients send it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json_reader.h"

namespace plait {

// Errors: ApiError 400 naming the field for a value of another type or out of its range.
class ApiFields final : public JsonFields {
 public:
  // `path` stands in front of the fields' names in messages: "tools[0]." or "".
  explicit ApiFields(const Json& object, std::string path = "");

  struct IntegerRange {
    int64_t least = INT64_MIN;
    int64_t most = INT64_MAX;
  };
  struct NumberRange {
    double least = 0;
    double most = 0;
  };

  // A number without a fraction counts: 5.0.
  std::optional<int64_t> integer(const char* key, IntegerRange range) const;
  std::optional<double> number(const char* key, NumberRange range) const;
  const Json* object(const char* key) const;
  const Json* list(const char* key) const;
  // Errors if the field is there with anything but null, false, 0, 1, "", [] or {}: silence about
  // a field that would change the answer is worse.
  void refuse_if_set(const char* key, const char* reason) const;

  std::string name_of(const char* key) const { return path_ + key; }
  [[noreturn]] void wrong_type(const char* key, const Json& value,
                               const char* needed) const override;

 private:
  std::string path_;
};

// An integer in [least, most] from any JSON value. Errors: as above.
int64_t to_api_integer(const Json& value, const std::string& field, ApiFields::IntegerRange range);

}  // namespace plait
