#include "serve/api_keys.h"

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace plait {
namespace {

// No early end: the time must not tell how much of a guess was right.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference = static_cast<unsigned char>(difference | (a[i] ^ other));
  }
  return difference == 0;
}

}  // namespace

bool ApiKeys::accepts(std::string_view authorization) const {
  static constexpr std::string_view kScheme = "bearer ";
  if (lower(std::string(authorization.substr(0, kScheme.size()))) != kScheme) {
    return false;
  }
  const std::string given = trimmed(authorization.substr(kScheme.size()));
  bool found = false;
  for (const std::string& key : keys_) {
    const bool equal = equal_in_constant_time(given, key);
    found = found || equal;
  }
  return found;
}

std::vector<std::string> read_api_keys(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<std::string> keys;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = trimmed(text.substr(begin, end - begin), " \t\r");
    begin = end + 1;
    if (line.empty() || line[0] == '#') {
      continue;
    }
    for (const char c : line) {
      if (c <= ' ' || c > '~') {
        throw_error(ErrorCode::kInvalidArgument,
                    "{}: key {} has a character that is no visible ASCII character", path,
                    keys.size() + 1);
      }
    }
    keys.push_back(line);
  }
  if (keys.empty()) {
    throw_error(ErrorCode::kInvalidArgument, "{}: no key in it; write one a line", path);
  }
  return keys;
}

}  // namespace plait
