// Code points, the character classes of split regexes, and NFC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plait {

struct CodePoint {
  uint32_t value = 0;
  uint32_t size = 1;  // bytes
};

// Requires: well-formed UTF-8 and position < text.size().
inline CodePoint code_point_at(std::string_view text, size_t position) {
  const auto byte = [&](size_t offset) {
    return static_cast<uint32_t>(static_cast<uint8_t>(text[position + offset]));
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1};
  }
  if (lead < 0xe0) {
    return {((lead & 0x1fU) << 6) | (byte(1) & 0x3fU), 2};
  }
  if (lead < 0xf0) {
    return {((lead & 0x0fU) << 12) | ((byte(1) & 0x3fU) << 6) | (byte(2) & 0x3fU), 3};
  }
  return {((lead & 0x07U) << 18) | ((byte(1) & 0x3fU) << 12) | ((byte(2) & 0x3fU) << 6) |
              (byte(3) & 0x3fU),
          4};
}

// Requires: a scalar value.
void append_utf8(uint32_t code_point, std::string& text);

// The classes that tokenizers split by; everything else is kOther.
enum class CharClass : uint8_t {
  kLetter,   // \p{L}
  kNumber,   // \p{N}
  kNewline,  // \r and \n
  kSpace,    // the rest of \s (Unicode White_Space)
  kOther,
};
CharClass char_class_beyond_ascii(uint32_t code_point);

inline CharClass char_class(uint32_t c) {
  if (c >= 0x80) {
    return char_class_beyond_ascii(c);
  }
  if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') {
    return CharClass::kLetter;
  }
  if (c >= '0' && c <= '9') {
    return CharClass::kNumber;
  }
  if (c == ' ' || c == '\t' || c == 0x0b || c == 0x0c) {
    return CharClass::kSpace;
  }
  return c == '\n' || c == '\r' ? CharClass::kNewline : CharClass::kOther;
}

// \w as Rust has it: letters, marks, decimal numbers, connectors.
bool is_word_character(uint32_t code_point);

// Whether Python's repr() shows it as it is.
bool is_printable(uint32_t code_point);
uint32_t to_upper(uint32_t code_point);
uint32_t to_lower(uint32_t code_point);

// The text in Unicode normalisation form C. Requires: well-formed UTF-8. O(n log n).
std::string to_nfc(std::string_view text);
// Where the first character stands that to_nfc might change or join with its neighbours, or npos;
// cheap.
size_t find_unstable_in_nfc(std::string_view text);

}  // namespace plait
