// Bearer keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plait {

class ApiKeys {
 public:
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}
  bool needed() const { return !keys_.empty(); }
  // `authorization`: the header's value. Takes the same time for every wrong key of one length.
  bool accepts(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
};

// One key a line; blank lines and lines that start with # are skipped. Errors: kNotFound; kInvalid-
// Argument if there is none, or one with a character that a header cannot carry.
std::vector<std::string> read_api_keys(const std::string& path);

}  // namespace plait
