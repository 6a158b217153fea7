#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace plait {
namespace {

// How a character with this first byte goes on: further bytes, and the range of the second one.
struct Lead {
  size_t more;
  uint8_t low, high;
};

bool classify(uint8_t byte, Lead& lead) {
  if (byte >= 0xc2 && byte <= 0xdf) {
    lead = {1, 0x80, 0xbf};
  } else if (byte >= 0xe0 && byte <= 0xef) {
    lead = {2, static_cast<uint8_t>(byte == 0xe0 ? 0xa0 : 0x80),
            static_cast<uint8_t>(byte == 0xed ? 0x9f : 0xbf)};
  } else if (byte >= 0xf0 && byte <= 0xf4) {
    lead = {3, static_cast<uint8_t>(byte == 0xf0 ? 0x90 : 0x80),
            static_cast<uint8_t>(byte == 0xf4 ? 0x8f : 0xbf)};
  } else {
    return false;
  }
  return true;
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  const auto byte_at = [&](size_t index) { return static_cast<uint8_t>(text[index]); };
  size_t i = 0;
  while (i < text.size()) {
    // Eight ASCII bytes at once.
    uint64_t word = 0;
    if (i + 8 <= text.size()) {
      std::memcpy(&word, text.data() + i, 8);
      if ((word & 0x8080808080808080ULL) == 0) {
        i += 8;
        continue;
      }
    }
    if (byte_at(i) < 0x80) {
      ++i;
      continue;
    }
    Lead lead{};
    if (!classify(byte_at(i), lead) || i + lead.more >= text.size() || byte_at(i + 1) < lead.low ||
        byte_at(i + 1) > lead.high) {
      return i;
    }
    for (size_t k = 2; k <= lead.more; ++k) {
      if ((byte_at(i + k) & 0xc0) != 0x80) {
        return i;
      }
    }
    i += lead.more + 1;
  }
  return std::string_view::npos;
}

}  // namespace plait
