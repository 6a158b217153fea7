// Large JSON files as a stream of leaves: memory does not grow with the file.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

struct JsonLeaf {
  // Keys from the root, an element of an array as "[]".
  const std::vector<std::string>& path;
  std::string_view text;  // of a string; empty for a number
  double number = 0;      // of a number, or of a string that is one
};

struct JsonEvents {
  std::function<void(const JsonLeaf&)> leaf;
  // The object or array at `path` has ended.
  std::function<void(const std::vector<std::string>& path)> end;
};

// Calls back for every leaf (null and false count as 0). Returns an empty text, or why and at which
// byte the file stops being JSON: what came before has been delivered. Errors: kNotFound.
std::string stream_json(const std::string& path, const JsonEvents& events);

}  // namespace plait
