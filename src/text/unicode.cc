#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"

namespace plait {
namespace {

// Beyond ASCII.
bool is_white_space(uint32_t c) {
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

CharClass classify(uint32_t c) {
  if (is_white_space(c)) {
    return CharClass::kSpace;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    default:
      return CharClass::kOther;
  }
}

// Ranges whose characters NFC leaves as they are and never joins with one before them.
bool is_stable_in_nfc(uint32_t c) {
  struct Range {
    uint32_t begin, end;
  };
  static constexpr Range kStable[] = {
      {0x388, 0x483},   {0x48a, 0x591},   {0x1e00, 0x1f00}, {0x2002, 0x2060},
      {0x20a0, 0x20d0}, {0x2190, 0x2329}, {0x232b, 0x2adc}, {0x2add, 0x2c00},
      {0x3000, 0x302a}, {0x3041, 0x3097}, {0x30a0, 0x3130}, {0x4e00, 0xa000},
      {0xac00, 0xd7a4}, {0xfe00, 0xfe10}, {0xff00, 0xfff0}, {0x1f300, 0x20000},
  };
  return c < 0x300 || std::ranges::any_of(kStable, [c](const Range& range) {
           return c >= range.begin && c < range.end;
         });
}

// The library orders marks in O(n^2); a run of them is the writer's to choose, so not here.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  const auto mark_class = [](utf8proc_int32_t c) {
    return utf8proc_get_property(c)->combining_class;
  };
  for (auto begin = text.begin(); begin != text.end();) {
    if (mark_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, text.end(), [&](utf8proc_int32_t c) { return mark_class(c) == 0; });
    std::ranges::stable_sort(begin, end, {}, mark_class);
    begin = end;
  }
}

// Appends the whole of `text` in NFC.
void compose(std::string_view text, std::string& result) {
  static constexpr size_t kDecomposedMax = 64;
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size() + kDecomposedMax);
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    i += c.size;
    std::array<utf8proc_int32_t, kDecomposedMax> parts{};
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c.value), parts.data(), std::ssize(parts),
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE), &boundary);
    CHECK(count >= 0 && count <= std::ssize(parts));
    points.insert(points.end(), parts.begin(), parts.begin() + count);
  }
  order_marks(points);
  const utf8proc_ssize_t size =
      utf8proc_normalize_utf32(points.data(), std::ssize(points),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  CHECK(size >= 0);
  for (utf8proc_ssize_t k = 0; k < size; ++k) {
    append_utf8(static_cast<uint32_t>(points[static_cast<size_t>(k)]), result);
  }
}

}  // namespace

void append_utf8(uint32_t code_point, std::string& text) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(size));
}

CharClass char_class_beyond_ascii(uint32_t code_point) {
  if (code_point >= 0x4e00 && code_point < 0x9fa6) {
    return CharClass::kLetter;
  }
  return classify(code_point);
}

bool is_word_character(uint32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return char_class(code_point) == CharClass::kLetter;
  }
}

bool is_printable(uint32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return code_point == ' ';
    default:
      return true;
  }
}

uint32_t to_upper(uint32_t code_point) {
  return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code_point)));
}

uint32_t to_lower(uint32_t code_point) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}

size_t find_unstable_in_nfc(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const CodePoint c = code_point_at(text, i);
    if (!is_stable_in_nfc(c.value)) {
      return i;
    }
    i += c.size;
  }
  return std::string_view::npos;
}

std::string to_nfc(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t unstable = find_unstable_in_nfc(text);
    if (unstable == std::string_view::npos) {
      return result.append(text);
    }
    // What is composed reaches from the stable character before it to the next stable one.
    size_t begin = unstable;
    do {
      begin -= begin > 0 ? 1 : 0;
    } while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xc0) == 0x80);
    size_t end = unstable;
    while (end < text.size()) {
      const CodePoint c = code_point_at(text, end);
      if (is_stable_in_nfc(c.value)) {
        break;
      }
      end += c.size;
    }
    result.append(text.substr(0, begin));
    compose(text.substr(begin, end - begin), result);
    text.remove_prefix(end);
  }
  return result;
}

}  // namespace plait
