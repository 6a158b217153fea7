#include <array>

#include "text/tokenizer_spec.h"
#include "text/unicode.h"

namespace plait {
namespace {

constexpr uint32_t kPoints = 0x144;

bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
         (byte >= 0xae && byte <= 0xff);
}

// Byte by code point; -1: not in the alphabet.
std::array<int16_t, kPoints> make_table() {
  std::array<int16_t, kPoints> table{};
  table.fill(-1);
  uint32_t moved = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    table[stands_for_itself(byte) ? byte : moved++] = static_cast<int16_t>(byte);
  }
  return table;
}

}  // namespace

std::optional<std::string> decode_byte_alphabet(const std::string& text) {
  static const std::array<int16_t, kPoints> table = make_table();
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    if (c.value >= kPoints || table[c.value] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(table[c.value]);
    i += c.size;
  }
  return bytes;
}

}  // namespace plait
