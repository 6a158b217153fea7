// Python's string operations on marked text. Offsets and lengths are in bytes unless said.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja/marked_text.h"

namespace plait::jinja {

// Python's str.isspace of one character.
bool is_white(uint32_t c);

struct StripSides {
  bool left = true;
  bool right = true;
};
// Strips white space, or the characters of `characters`.
MarkedText strip(const MarkedText& text, const std::optional<std::string>& characters,
                 const StripSides& sides);
// At white space if `separator` is absent; at most `splits_max` times if that is not negative.
struct SplitOptions {
  std::optional<std::string> separator;
  int64_t splits_max = -1;
  bool from_right = false;
};
std::vector<MarkedText> split(const MarkedText& text, const SplitOptions& options);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);
struct Replacement {
  std::string old_text;
  MarkedText new_text;
  int64_t count = -1;  // < 0: all
};
MarkedText replace(const MarkedText& text, const Replacement& replacement);

enum class CaseChange : uint8_t { kUpper, kLower, kTitle, kCapitalize };
MarkedText change_case(const MarkedText& text, CaseChange change);

// Characters.
int64_t character_count(const std::string& text);
std::vector<MarkedText> characters(const MarkedText& text);
// Number of characters before byte `offset`.
int64_t character_index(const std::string& text, size_t offset);

}  // namespace plait::jinja
