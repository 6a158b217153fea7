#include "text/jinja/text_ops.h"

#include <algorithm>

#include "text/unicode.h"

namespace plait::jinja {

bool is_white(uint32_t c) {
  const CharClass kind = char_class(c);
  return kind == CharClass::kSpace || kind == CharClass::kNewline || (c >= 0x1c && c <= 0x1f);
}

namespace {

// First byte of the character that ends at `end`.
size_t character_before(const std::string& text, size_t end) {
  --end;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  return end;
}

std::vector<MarkedText> split_at_white(const MarkedText& text, const SplitOptions& options) {
  std::vector<std::pair<size_t, size_t>> words;
  const std::string& bytes = text.bytes();
  size_t begin = std::string::npos;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = code_point_at(bytes, i);
    if (is_white(c.value)) {
      if (begin != std::string::npos) {
        words.emplace_back(begin, i);
        begin = std::string::npos;
      }
    } else if (begin == std::string::npos) {
      begin = i;
    }
    i += c.size;
  }
  if (begin != std::string::npos) {
    words.emplace_back(begin, bytes.size());
  }
  // What is beyond the allowed splits stays one part, white space inside it included.
  const auto parts_max = static_cast<size_t>(options.splits_max + 1);
  if (options.splits_max >= 0 && words.size() > parts_max) {
    if (options.from_right) {
      words.erase(words.begin(), words.end() - static_cast<std::ptrdiff_t>(parts_max));
      words.front().first = 0;  // as Python, which keeps the white space on that side
    } else {
      words.resize(parts_max);
      words.back().second = bytes.size();
    }
  }
  std::vector<MarkedText> parts;
  for (const auto& [from, to] : words) {
    parts.push_back(text.part(from, to - from));
  }
  return parts;
}

}  // namespace

MarkedText strip(const MarkedText& text, const std::optional<std::string>& characters,
                 const StripSides& sides) {
  const std::string& bytes = text.bytes();
  const auto strips = [&](size_t position) {
    const CodePoint c = code_point_at(bytes, position);
    return characters ? characters->find(bytes.substr(position, c.size)) != std::string::npos
                      : is_white(c.value);
  };
  size_t begin = 0;
  size_t end = bytes.size();
  while (sides.left && begin < end && strips(begin)) {
    begin += code_point_at(bytes, begin).size;
  }
  while (sides.right && end > begin && strips(character_before(bytes, end))) {
    end = character_before(bytes, end);
  }
  return text.part(begin, end - begin);
}

std::vector<MarkedText> split(const MarkedText& text, const SplitOptions& options) {
  if (!options.separator) {
    return split_at_white(text, options);
  }
  const std::string& bytes = text.bytes();
  const std::string& separator = *options.separator;
  std::vector<size_t> places;
  const auto limit = static_cast<size_t>(options.splits_max);
  const auto more = [&] { return options.splits_max < 0 || places.size() < limit; };
  if (options.from_right) {
    size_t end = bytes.size();
    while (more() && end >= separator.size()) {
      const size_t found = bytes.rfind(separator, end - separator.size());
      if (found == std::string::npos) {
        break;
      }
      places.push_back(found);
      end = found;
    }
    std::ranges::reverse(places);
  } else {
    size_t begin = 0;
    while (more() && (begin = bytes.find(separator, begin)) != std::string::npos) {
      places.push_back(begin);
      begin += separator.size();
    }
  }
  std::vector<MarkedText> parts;
  size_t begin = 0;
  for (const size_t place : places) {
    parts.push_back(text.part(begin, place - begin));
    begin = place + separator.size();
  }
  parts.push_back(text.part(begin, bytes.size() - begin));
  return parts;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  const std::string& bytes = text.bytes();
  std::vector<MarkedText> lines;
  size_t begin = 0;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = code_point_at(bytes, i);
    const bool ends = (c.value >= 0x0a && c.value <= 0x0d) ||
                      (c.value >= 0x1c && c.value <= 0x1e) || c.value == 0x85 ||
                      c.value == 0x2028 || c.value == 0x2029;
    size_t after = i + c.size;
    if (ends) {
      after += c.value == '\r' && after < bytes.size() && bytes[after] == '\n' ? 1 : 0;
      lines.push_back(text.part(begin, (keep_ends ? after : i) - begin));
      begin = after;
    }
    i = after;
  }
  if (begin < bytes.size()) {
    lines.push_back(text.part(begin, bytes.size() - begin));
  }
  return lines;
}

MarkedText replace(const MarkedText& text, const Replacement& replacement) {
  const std::string& bytes = text.bytes();
  MarkedText result;
  int64_t left = replacement.count;
  size_t begin = 0;
  if (replacement.old_text.empty()) {  // between all characters, and at both ends
    for (size_t i = 0; left != 0; --left) {
      result.append(replacement.new_text);
      if (i >= bytes.size()) {
        begin = i;
        break;
      }
      const size_t size = code_point_at(bytes, i).size;
      result.append(text.part(i, size));
      begin = i += size;
    }
    result.append(text.part(begin, bytes.size() - begin));
    return result;
  }
  for (; left != 0; --left) {
    const size_t found = bytes.find(replacement.old_text, begin);
    if (found == std::string::npos) {
      break;
    }
    result.append(text.part(begin, found - begin));
    result.append(replacement.new_text);
    begin = found + replacement.old_text.size();
  }
  result.append(text.part(begin, bytes.size() - begin));
  return result;
}

MarkedText change_case(const MarkedText& text, CaseChange change) {
  const std::string& bytes = text.bytes();
  std::string out;
  out.reserve(bytes.size());
  bool begins = true;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = code_point_at(bytes, i);
    const bool upper = change == CaseChange::kUpper || (change != CaseChange::kLower && begins);
    append_utf8(upper ? to_upper(c.value) : to_lower(c.value), out);
    begins = change == CaseChange::kTitle && char_class(c.value) != CharClass::kLetter;
    i += c.size;
  }
  return text.with_bytes(std::move(out));
}

int64_t character_count(const std::string& text) {
  return std::ranges::count_if(text,
                               [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; });
}

std::vector<MarkedText> characters(const MarkedText& text) {
  std::vector<MarkedText> parts;
  const bool uniform = text.segments().size() <= 1;
  const bool user = text.any_user();
  for (size_t i = 0; i < text.size();) {
    const size_t size = code_point_at(text.bytes(), i).size;
    parts.push_back(uniform ? MarkedText(text.bytes().substr(i, size), user) : text.part(i, size));
    i += size;
  }
  return parts;
}

int64_t character_index(const std::string& text, size_t offset) {
  return character_count(text.substr(0, offset));
}

}  // namespace plait::jinja
