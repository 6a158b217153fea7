// Typed access to the keys of one JSON object, with errors that name file, key and value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"

namespace plait {

// `value` as it stands in the file, shortened to fit a message.
std::string shown_json(const Json& value);

// What readers of JSON objects share: look-ups and types that need no range. Refers to `object`,
// which must outlive it. A key with null counts as absent, as in HF's files and as clients send it.
class JsonFields {
 public:
  virtual ~JsonFields() = default;

  const Json* find(const char* key) const;  // null if absent
  bool flag(const char* key, bool otherwise = false) const;
  std::optional<std::string> text(const char* key) const;

  // The error for a value of another type; what it is differs with the reader.
  [[noreturn]] virtual void wrong_type(const char* key, const Json& value,
                                       const char* needed) const = 0;

 protected:
  explicit JsonFields(const Json& object) : object_(&object) {}
  JsonFields(const JsonFields&) = default;
  JsonFields& operator=(const JsonFields&) = default;

  const Json& object_value() const { return *object_; }

 private:
  const Json* object_;
};

// Of files. Errors: kCorruptData for a value of another type, "ORIGIN: KEY is VALUE, but must be
// ...".
class JsonReader final : public JsonFields {
 public:
  // Errors: kCorruptData if `object` is no JSON object.
  JsonReader(const Json& object, std::string origin);

  bool has(const char* key) const;  // there, be it with null

  std::optional<int64_t> integer(const char* key) const;
  int64_t required_integer(const char* key) const;
  // `value` as a 64-bit integer; `key` is for the message.
  int64_t to_integer(const char* key, const Json& value) const;
  std::optional<double> number(const char* key) const;  // an integer is one too
  double required_number(const char* key) const;
  std::string required_text(const char* key) const;

  const std::string& origin() const { return origin_; }

  [[noreturn]] void wrong_type(const char* key, const Json& value,
                               const char* needed) const override;
  [[noreturn]] void missing(const char* key) const;

 private:
  std::string origin_;
};

}  // namespace plait
