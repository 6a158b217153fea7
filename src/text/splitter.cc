#include "text/splitter.h"

#include <algorithm>

#include "text/unicode.h"

namespace plait {
namespace {

struct Char {
  uint32_t value = 0;
  CharClass kind = CharClass::kOther;
  size_t end = 0;  // offset behind it
};

bool is_space(CharClass kind) {
  return kind == CharClass::kSpace || kind == CharClass::kNewline;
}

Char char_at(std::string_view text, size_t position) {
  const CodePoint c = code_point_at(text, position);
  return {c.value, char_class(c.value), position + c.size};
}

size_t skip_class(std::string_view text, size_t position, CharClass kind) {
  while (position < text.size()) {
    const Char c = char_at(text, position);
    if (c.kind != kind) {
      break;
    }
    position = c.end;
  }
  return position;
}

// The end of 's 't 're 've 'm 'll 'd at the apostrophe at `position`, or 0. Ignoring case, the long
// s (U+017F) is an s too.
size_t match_contraction(std::string_view text, size_t position, bool ignore_case) {
  const auto letter = [&](size_t offset) {
    const char c = offset < text.size() ? text[offset] : '\0';
    return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(position + 1);
  const char second = letter(position + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') {
    return position + 2;
  }
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
      (first == 'l' && second == 'l')) {
    return position + 3;
  }
  if (ignore_case && text.substr(position + 1).starts_with("\xc5\xbf")) {
    return position + 3;
  }
  return 0;
}

// A run of white space that starts at `position`.
struct SpaceRun {
  size_t end = 0;
  size_t last_begin = 0;   // of its last character
  size_t newline_end = 0;  // behind its last line break; 0: it has none
};

SpaceRun space_run(std::string_view text, size_t position) {
  SpaceRun run;
  while (position < text.size()) {
    const Char c = char_at(text, position);
    if (!is_space(c.kind)) {
      break;
    }
    run.last_begin = position;
    if (c.kind == CharClass::kNewline) {
      run.newline_end = c.end;
    }
    position = c.end;
  }
  run.end = position;
  return run;
}

// \s+(?!\S)|\s+ : leaves the last character to the word behind it.
size_t end_of_spaces(std::string_view text, const SpaceRun& run, size_t position) {
  return run.end == text.size() || run.last_begin == position ? run.end : run.last_begin;
}

// kQwen2SplitRegex (digits_max 1) and kLlama3SplitRegex (3).
size_t match_llama3(std::string_view text, size_t position, int digits_max) {
  const Char first = char_at(text, position);
  if (first.kind == CharClass::kLetter) {
    return skip_class(text, first.end, CharClass::kLetter);
  }
  if (first.value == '\'') {
    const size_t end = match_contraction(text, position, true);
    if (end != 0) {
      return end;
    }
  }
  if (first.kind == CharClass::kNumber) {
    size_t end = first.end;
    for (int count = 1; count < digits_max && end < text.size(); ++count) {
      const Char next = char_at(text, end);
      if (next.kind != CharClass::kNumber) {
        break;
      }
      end = next.end;
    }
    return end;
  }
  const bool has_next = first.end < text.size();
  const Char next = has_next ? char_at(text, first.end) : Char{};
  if (first.kind != CharClass::kNewline && has_next && next.kind == CharClass::kLetter) {
    return skip_class(text, next.end, CharClass::kLetter);
  }
  if (first.kind == CharClass::kOther ||
      (first.value == ' ' && has_next && next.kind == CharClass::kOther)) {
    return skip_class(text, skip_class(text, first.end, CharClass::kOther), CharClass::kNewline);
  }
  const SpaceRun run = space_run(text, position);
  return run.newline_end != 0 ? run.newline_end : end_of_spaces(text, run, position);
}

size_t match_gpt2(std::string_view text, size_t position) {
  const Char first = char_at(text, position);
  if (first.value == '\'') {
    const size_t end = match_contraction(text, position, false);
    if (end != 0) {
      return end;
    }
  }
  if (!is_space(first.kind)) {
    return skip_class(text, first.end, first.kind);
  }
  if (first.value == ' ' && first.end < text.size()) {
    const Char next = char_at(text, first.end);
    if (!is_space(next.kind)) {
      return skip_class(text, next.end, next.kind);
    }
  }
  return end_of_spaces(text, space_run(text, position), position);
}

// Digits alone, everything between them as it is.
size_t match_digits(std::string_view text, size_t position) {
  const Char first = char_at(text, position);
  size_t end = first.end;
  if (first.kind == CharClass::kNumber) {
    return end;
  }
  while (end < text.size()) {
    const Char next = char_at(text, end);
    if (next.kind == CharClass::kNumber) {
      break;
    }
    end = next.end;
  }
  return end;
}

template <typename Match>
class MatchSplitter final : public Splitter {
 public:
  explicit MatchSplitter(Match match) : match_(match) {}
  void split(std::string_view text, size_t base, std::vector<size_t>& ends) const override {
    size_t position = 0;
    while (position < text.size()) {
      position = match_(text, position);
      ends.push_back(base + position);
    }
  }

 private:
  Match match_;
};

template <typename Match>
std::unique_ptr<Splitter> make_match_splitter(Match match) {
  return std::make_unique<MatchSplitter<Match>>(match);
}

}  // namespace

std::unique_ptr<Splitter> make_splitter(const SplitStep& step, const std::string& origin) {
  if (!step.is_regex) {
    return make_match_splitter(match_digits);
  }
  if (step.regex == kQwen2SplitRegex) {
    return make_match_splitter(
        [](std::string_view text, size_t position) { return match_llama3(text, position, 1); });
  }
  if (step.regex == kLlama3SplitRegex) {
    return make_match_splitter(
        [](std::string_view text, size_t position) { return match_llama3(text, position, 3); });
  }
  if (step.regex == kGpt2SplitRegex) {
    return make_match_splitter(match_gpt2);
  }
  return make_regex_splitter(step.regex, origin);
}

}  // namespace plait
