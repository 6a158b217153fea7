// What the readers of lines share. Internal to doctor/.
#pragma once

#include <cstddef>
#include <string_view>

namespace plait {

inline constexpr size_t kNoPosition = std::string_view::npos;

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A letter, digit or underscore.
inline bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// One past the run of accepted characters that begins at `at`.
inline size_t run_end(std::string_view text, size_t at, bool (*accept)(char)) {
  while (at < text.size() && accept(text[at])) {
    ++at;
  }
  return at;
}

}  // namespace plait
