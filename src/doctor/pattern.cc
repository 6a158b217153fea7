#include "doctor/pattern.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "doctor/chars.h"

namespace plait {
namespace {

char folded(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_hex(char c) {
  return is_digit(c) || (folded(c) >= 'a' && folded(c) <= 'f');
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\xa0' || c == '\xc2';
}

bool in_bare_word(char c) {
  static constexpr std::string_view kStops = " \t,;[](){}\"'<>|=";
  return kStops.find(c) == kNoPosition;
}

bool in_number(char c) {
  return is_digit(c) || c == '.' || c == '-' || c == '+';
}

bool in_brackets(char c) {
  static constexpr std::string_view kStops = "])}\"";
  return kStops.find(c) == kNoPosition;
}

bool in_sentence(char c) {
  return c != '.' && c != '[' && c != ';';
}

bool in_host(char c) {
  return is_word(c) || c == '.' || c == '-' || c == '%';
}

bool in_path(char c) {
  return in_host(c) || c == '/' || c == '+' || c == '@';
}

bool is_letter(char c) {
  return folded(c) >= 'a' && folded(c) <= 'z';
}

bool is_any(char /*c*/) {
  return true;
}

bool edge_at(std::string_view line, size_t at) {
  const bool before = at > 0 && is_word(line[at - 1]);
  const bool after = at < line.size() && is_word(line[at]);
  return !(before && after);
}

}  // namespace

Pattern::Pattern(std::string_view text) : text_(text) {
  parse();
  choose_anchor();
}

size_t Pattern::parse_brace(size_t begin, Segment& segment) const {
  const size_t close = text_.find('}', begin);
  if (close == std::string::npos) {
    throw_error(ErrorCode::kInvalidArgument, "pattern '{}': '{{' without '}}'", text_);
  }
  std::string name = text_.substr(begin + 1, close - begin - 1);
  Kind kind = Kind::kWord;
  if (const size_t colon = name.find(':'); colon != std::string::npos) {
    const std::string type = name.substr(colon + 1);
    static constexpr std::string_view kTypes = "dxfhpwrsl";
    static constexpr Kind kKinds[] = {Kind::kDigits, Kind::kHex,      Kind::kNumber,
                                      Kind::kHost,   Kind::kPath,     Kind::kLetters,
                                      Kind::kRest,   Kind::kSentence, Kind::kBracketed};
    const size_t index = type.size() == 1 ? kTypes.find(type[0]) : kNoPosition;
    if (index == kNoPosition) {
      throw_error(ErrorCode::kInvalidArgument,
                  "pattern '{}': type '{}' is not known; allowed are d, x, f, h, p, w, r, s, l",
                  text_, type);
    }
    kind = kKinds[index];
    name.resize(colon);
  }
  segment.push_back({kind, std::move(name)});
  return close + 1;
}

void Pattern::parse() {
  segments_.emplace_back();
  const auto literal = [this](char c) {
    Segment& segment = segments_.back();
    if (segment.empty() || segment.back().kind != Kind::kLiteral) {
      segment.push_back({Kind::kLiteral, ""});
    }
    segment.back().text += folded(c);
  };
  size_t at = 0;
  while (at < text_.size()) {
    const char c = text_[at];
    if (c == '{') {
      at = parse_brace(at, segments_.back());
      continue;
    }
    if (c == '*') {
      if (!segments_.back().empty()) {
        segments_.emplace_back();
      }
    } else if (c == '~') {
      segments_.back().push_back({Kind::kEdge, ""});
    } else if (c == ' ') {
      segments_.back().push_back({Kind::kBlank, ""});
    } else if (c == '\\' && at + 1 < text_.size()) {
      literal(text_[++at]);
    } else {
      literal(c);
    }
    ++at;
  }
  if (segments_.back().empty()) {
    segments_.pop_back();
  }
}

void Pattern::choose_anchor() {
  // Columns are padded with any number of blanks: no anchor across those.
  static constexpr std::string_view kColumn = ":|=";
  for (const Segment& segment : segments_) {
    std::string run;
    for (size_t i = 0; i < segment.size(); ++i) {
      const Token& token = segment[i];
      if (token.kind == Kind::kLiteral) {
        run += token.text;
      } else if (token.kind == Kind::kBlank) {
        const bool before = i + 1 < segment.size() && segment[i + 1].kind == Kind::kLiteral &&
                            kColumn.find(segment[i + 1].text[0]) != kNoPosition;
        const bool after = !run.empty() && run.back() == '|';
        if (before || after) {
          run.clear();
        } else {
          run += ' ';
        }
      } else if (token.kind != Kind::kEdge) {
        run.clear();
      }
      if (run.size() > anchor_.size()) {
        anchor_ = run;
      }
    }
  }
  anchor_ = trimmed(anchor_, " ");
  if (anchor_.size() < 3) {
    throw_error(ErrorCode::kInvalidArgument,
                "pattern '{}' holds no literal text of three bytes or more to search for", text_);
  }
  static constexpr size_t kMaxAnchor = 18;  // longer ones only make the automaton larger
  if (anchor_.size() > kMaxAnchor) {
    anchor_ = anchor_.substr(anchor_.size() - kMaxAnchor);
  }
}

size_t Pattern::match_at(const Segment& segment, std::string_view line, size_t at,
                         Captures* captures) {
  for (const Token& token : segment) {
    size_t end = at;
    switch (token.kind) {
      case Kind::kLiteral:
        if (line.size() - at < token.text.size()) {
          return kNoPosition;
        }
        for (const char c : token.text) {
          if (folded(line[end]) != c) {
            return kNoPosition;
          }
          ++end;
        }
        at = end;
        continue;
      case Kind::kEdge:
        if (!edge_at(line, at)) {
          return kNoPosition;
        }
        continue;
      case Kind::kBlank:
        end = run_end(line, at, is_blank);
        break;
      case Kind::kDigits:
        end = run_end(line, at, is_digit);
        break;
      case Kind::kHex:
        end = run_end(line, at, is_hex);
        if (end == at + 1 && end < line.size() && folded(line[end]) == 'x') {
          end = run_end(line, end + 1, is_hex);
        }
        break;
      case Kind::kNumber:
        end = run_end(line, at, in_number);
        break;
      case Kind::kWord:
        end = run_end(line, at, in_bare_word);
        break;
      case Kind::kHost:
        end = run_end(line, at, in_host);
        break;
      case Kind::kPath:
        end = run_end(line, at, in_path);
        break;
      case Kind::kLetters:
        end = run_end(line, at, is_letter);
        break;
      case Kind::kRest:
        end = run_end(line, at, is_any);
        break;
      case Kind::kSentence:
        end = run_end(line, at, in_sentence);
        break;
      case Kind::kBracketed:
        end = run_end(line, at, in_brackets);
        break;
    }
    if (end == at) {
      return kNoPosition;
    }
    if (captures != nullptr && !token.text.empty()) {
      (*captures)[token.text] = std::string(line.substr(at, end - at));
    }
    at = end;
  }
  return at;
}

bool Pattern::match(std::string_view line, Captures* captures) const {
  // Between gaps the leftmost match of a part is as good as any other: it leaves most to the rest.
  Captures kept;
  size_t at = 0;
  for (const Segment& segment : segments_) {
    size_t end = kNoPosition;
    for (; at <= line.size() && end == kNoPosition; ++at) {
      const Token& first = segment.front();
      if (first.kind == Kind::kLiteral &&
          (at == line.size() || folded(line[at]) != first.text[0])) {
        continue;
      }
      end = match_at(segment, line, at, captures == nullptr ? nullptr : &kept);
    }
    if (end == kNoPosition) {
      return false;
    }
    at = end;
  }
  if (captures != nullptr) {
    for (auto& [name, value] : kept) {
      (*captures)[name] = std::move(value);
    }
  }
  return true;
}

}  // namespace plait
