#include "doctor/numbers.h"

#include <algorithm>
#include <charconv>

#include "doctor/chars.h"

namespace plait {
namespace {

std::optional<int64_t> leading_number(std::string_view text) {
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<int64_t> number_after(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != kNoPosition; at = text.find(key, at + 1)) {
    std::string_view rest = text.substr(at + key.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" :=["), rest.size()));
    if (!rest.empty() && is_digit(rest[0])) {
      return leading_number(rest);
    }
  }
  return std::nullopt;
}

std::optional<int64_t> number_of(const Captures& words, const char* name) {
  const auto found = words.find(name);
  if (found == words.end()) {
    return std::nullopt;
  }
  std::string_view word = found->second;
  word.remove_suffix(word.ends_with('.') ? 1 : 0);
  const size_t first = word.starts_with('-') ? 1 : 0;
  return run_end(word, first, is_digit) == word.size() ? leading_number(word) : std::nullopt;
}

}  // namespace plait
