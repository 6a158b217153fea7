#include "text/jinja/lexer.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace plait::jinja {
namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

size_t skip_white(std::string_view text, size_t position) {
  while (position < text.size()) {
    const CodePoint c = code_point_at(text, position);
    if (!is_white(c.value)) {
      break;
    }
    position += c.size;
  }
  return position;
}

std::string normalize_newlines(const std::string& source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

class Lexer {
 public:
  Lexer(const std::string& source, const std::string& origin)
      : text_(normalize_newlines(source)), origin_(origin) {}

  std::vector<Token> run() {
    while (position_ < text_.size()) {
      read_text();
    }
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw_error(ErrorCode::kCorruptData, "{}: line {}: {}", origin_, line_, what);
  }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void advance(size_t position) {
    line_ += std::count(text_.begin() + static_cast<std::ptrdiff_t>(position_),
                        text_.begin() + static_cast<std::ptrdiff_t>(position), '\n');
    position_ = position;
  }
  bool at(std::string_view part) const {
    return std::string_view(text_).substr(position_).starts_with(part);
  }
  char peek(size_t offset) const {
    return position_ + offset < text_.size() ? text_[position_ + offset] : '\0';
  }

  size_t find_tag() const {
    for (size_t begin = position_; (begin = text_.find('{', begin)) != std::string::npos; ++begin) {
      const char next = begin + 1 < text_.size() ? text_[begin + 1] : '\0';
      if (next == '%' || next == '{' || next == '#') {
        return begin;
      }
    }
    return std::string::npos;
  }

  // Up to the next tag, and that tag.
  void read_text() {
    const size_t begin = find_tag();
    if (begin == std::string::npos) {
      add_text(text_.substr(position_));
      advance(text_.size());
      return;
    }
    const char kind = text_[begin + 1];
    const char sign = begin + 2 < text_.size() ? text_[begin + 2] : '\0';
    std::string text = text_.substr(position_, begin - position_);
    strip_end(text, kind, sign);
    add_text(std::move(text));
    advance(begin + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (kind == '#') {
      read_comment();
    } else {
      read_tag(kind);
    }
  }

  void add_text(std::string text) {
    if (!text.empty()) {
      add(TokenKind::kText, std::move(text));
    }
  }

  // '-' takes all white space before the tag; a block or comment also what indents it, if nothing
  // else stands on its line.
  void strip_end(std::string& text, char kind, char sign) const {
    if (sign == '-') {
      size_t end = text.size();
      for (size_t i = 0; i < text.size();) {
        const size_t after = skip_white(text, i);
        if (after == text.size()) {
          end = i;
          break;
        }
        i = after + code_point_at(text, after).size;
      }
      text.resize(end);
      return;
    }
    if (sign == '+' || kind == '{') {
      return;
    }
    const size_t newline = text.rfind('\n');
    const size_t line_begin = newline == std::string::npos ? 0 : newline + 1;
    if ((line_begin > 0 || line_starting_) && line_begin < text.size() &&
        skip_white(text, line_begin) == text.size()) {
      text.resize(line_begin);
    }
  }

  // Behind a tag's end: '-' takes all white space, a block or comment one line break.
  void finish_tag(bool dash, bool plus, bool trim) {
    size_t position = position_;
    if (dash) {
      position = skip_white(text_, position);
    } else if (trim && !plus && peek(0) == '\n') {
      ++position;
    }
    line_starting_ = position > 0 && text_[position - 1] == '\n';
    advance(position);
  }

  void read_comment() {
    const size_t end = text_.find("#}", position_);
    if (end == std::string::npos) {
      fail("a comment {# is not closed");
    }
    const char sign = end > position_ ? text_[end - 1] : '\0';
    advance(end + 2);
    finish_tag(sign == '-', sign == '+', true);
  }

  void read_tag(char kind) {
    const bool block = kind == '%';
    if (block && read_raw()) {
      return;
    }
    add(block ? TokenKind::kBlock : TokenKind::kPrint, "");
    const std::string_view end = block ? "%}" : "}}";
    brackets_.clear();
    for (;;) {
      advance(skip_white(text_, position_));
      if (position_ >= text_.size()) {
        fail(block ? "a block {% is not closed" : "{{ is not closed");
      }
      const bool signed_end =
          (peek(0) == '-' || (block && peek(0) == '+')) && peek(1) == end[0] && peek(2) == end[1];
      if (brackets_.empty() && (at(end) || signed_end)) {
        add(block ? TokenKind::kBlockEnd : TokenKind::kPrintEnd, "");
        const char sign = signed_end ? peek(0) : '\0';
        advance(position_ + (signed_end ? 3 : 2));
        finish_tag(sign == '-', sign == '+', block);
        return;
      }
      read_token();
    }
  }

  // {% raw %} ... {% endraw %}.
  bool read_raw() {
    const size_t name = skip_white(text_, position_);
    if (!std::string_view(text_).substr(name).starts_with("raw")) {
      return false;
    }
    const size_t close = skip_white(text_, name + 3);
    const bool dash = close < text_.size() && text_[close] == '-';
    if (!std::string_view(text_).substr(close + (dash ? 1 : 0)).starts_with("%}")) {
      return false;
    }
    advance(close + (dash ? 3 : 2));
    finish_tag(dash, false, true);
    for (size_t begin = position_; (begin = text_.find("{%", begin)) != std::string::npos;
         begin += 2) {
      const char sign = begin + 2 < text_.size() ? text_[begin + 2] : '\0';
      const size_t word = skip_white(text_, begin + (sign == '-' || sign == '+' ? 3 : 2));
      if (!std::string_view(text_).substr(word).starts_with("endraw")) {
        continue;
      }
      const size_t end = text_.find("%}", word);
      if (end == std::string::npos) {
        break;
      }
      std::string text = text_.substr(position_, begin - position_);
      strip_end(text, '%', sign);
      add_text(std::move(text));
      const char end_sign = text_[end - 1];
      advance(end + 2);
      finish_tag(end_sign == '-', end_sign == '+', true);
      return true;
    }
    fail("{% raw %} without {% endraw %}");
  }

  void read_token() {
    const char c = peek(0);
    if (is_name_start(c)) {
      size_t end = position_;
      while (end < text_.size() && (is_name_start(text_[end]) || is_digit(text_[end]))) {
        ++end;
      }
      add(TokenKind::kName, text_.substr(position_, end - position_));
      advance(end);
    } else if (is_digit(c)) {
      read_number();
    } else if (c == '"' || c == '\'') {
      read_string(c);
    } else {
      read_operator();
    }
  }

  void read_number() {
    size_t end = position_;
    const auto digits = [&] {
      while (end < text_.size() && (is_digit(text_[end]) || text_[end] == '_')) {
        ++end;
      }
    };
    digits();
    bool is_float = false;
    if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) {
      is_float = true;
      ++end;
      digits();
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      const size_t before = end;
      ++end;
      end += end < text_.size() && (text_[end] == '+' || text_[end] == '-') ? 1 : 0;
      if (end < text_.size() && is_digit(text_[end])) {
        is_float = true;
        digits();
      } else {
        end = before;
      }
    }
    std::string number = text_.substr(position_, end - position_);
    std::erase(number, '_');
    add(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(number));
    advance(end);
  }

  void read_string(char quote) {
    std::string value;
    size_t i = position_ + 1;
    while (i < text_.size() && text_[i] != quote) {
      if (text_[i] == '\\' && i + 1 < text_.size()) {
        i = read_escape(i + 1, value);
      } else {
        value += text_[i++];
      }
    }
    if (i >= text_.size()) {
      fail("a string is not closed");
    }
    add(TokenKind::kString, std::move(value));
    advance(i + 1);
  }

  // Python's escapes; `position` is behind the backslash. Returns the place behind the escape.
  size_t read_escape(size_t position, std::string& value) const {
    static constexpr std::string_view kNames = "ntrabfv0\\'\"\n";
    static constexpr std::string_view kValues("\n\t\r\a\b\f\v\0\\'\"", 11);
    const char c = text_[position];
    if (c == 'x' || c == 'u' || c == 'U') {
      const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::string digits = text_.substr(position + 1, count);
      if (digits.size() < count ||
          digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
        fail("a string has a broken \\x, \\u or \\U escape");
      }
      const uint64_t code = std::stoull(digits, nullptr, 16);
      if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        fail("a string's \\u escape is no character");
      }
      append_utf8(static_cast<uint32_t>(code), value);
      return position + 1 + count;
    }
    const size_t known = kNames.find(c);
    if (known == std::string_view::npos) {
      value += '\\';
      value += c;
    } else if (c != '\n') {
      value += kValues[known];
    }
    return position + 1;
  }

  void read_operator() {
    static constexpr std::string_view kOperators[] = {
        "==", "!=", ">=", "<=", "//", "**", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view name : kOperators) {
      if (at(name)) {
        track_bracket(name[0]);
        add(TokenKind::kOperator, std::string(name));
        advance(position_ + name.size());
        return;
      }
    }
    fail(fmt::format("unexpected character '{}'",
                     text_.substr(position_, code_point_at(text_, position_).size)));
  }

  void track_bracket(char c) {
    static constexpr std::string_view kOpen = "([{";
    static constexpr std::string_view kClose = ")]}";
    if (kOpen.find(c) != std::string_view::npos) {
      brackets_ += kClose[kOpen.find(c)];
    } else if (kClose.find(c) != std::string_view::npos) {
      if (brackets_.empty() || brackets_.back() != c) {
        fail(fmt::format("unexpected '{}'", c));
      }
      brackets_.pop_back();
    }
  }

  std::string text_;
  std::string origin_;
  size_t position_ = 0;
  int64_t line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // that are open, as the brackets that close them
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const std::string& source, const std::string& origin) {
  return Lexer(source, origin).run();
}

}  // namespace plait::jinja
