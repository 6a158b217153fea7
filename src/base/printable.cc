#include "base/printable.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/utf8.h"

namespace plait {

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t bad = std::min(find_invalid_utf8(text), text.size());
    for (size_t i = 0; i < bad; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      // U+0080..U+009F (C2 80..9F) steer terminals too; so do the marks of writing direction.
      const bool c1 = byte == 0xc2 && i + 1 < bad && static_cast<unsigned char>(text[i + 1]) < 0xa0;
      const std::string_view mark = text.substr(i, 3);
      const bool direction = mark >= "\xe2\x80\xaa" && mark <= "\xe2\x80\xae";
      if (byte == '\t') {
        result += ' ';
      } else if (byte < 0x20 || byte == 0x7f || c1) {
        result += fmt::format("\\x{:02x}", c1 ? static_cast<unsigned char>(text[i + 1]) : byte);
        i += c1 ? 1 : 0;
      } else if (direction) {
        result += "?";
        i += 2;
      } else {
        result += text[i];
      }
    }
    if (bad < text.size()) {
      result += '?';
    }
    text.remove_prefix(std::min(bad + 1, text.size()));
  }
  return result;
}

}  // namespace plait
