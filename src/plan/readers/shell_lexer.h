// Tokens of launch scripts. Internal to readers/.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plan/readers/shell_syntax.h"

namespace plait {

constexpr int kMaxShellDepth = 48;
constexpr size_t kNoEnd = std::string_view::npos;  // of what is never closed

inline bool is_shell_blank(char c) {
  return c == ' ' || c == '\t';
}
inline bool is_shell_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

struct ShellToken {
  enum class Kind : uint8_t { kWord, kOperator, kEnd };
  Kind kind = Kind::kEnd;
  RawWord word;  // of an operator: its characters; "\n" for a line end

  bool is(std::string_view op) const { return kind == Kind::kOperator && word.text == op; }
  bool is_word(std::string_view text) const { return kind == Kind::kWord && word.text == text; }
};

class ShellLexer {
 public:
  ShellLexer(std::string_view text, const std::string& origin, int line)
      : text_(text), origin_(origin), line_(line) {}

  const ShellToken& peek() {
    if (!ready_) {
      token_ = read();
      ready_ = true;
    }
    return token_;
  }
  ShellToken next() {
    peek();
    ready_ = false;
    return std::move(token_);
  }
  // Inside [[ ]], && || ( ) < > are words.
  void set_in_test(bool in_test) { in_test_ = in_test; }
  // The raw text of (( ... )), whose "((" has been read as two operators.
  bool arithmetic_follows() const { return at_ < text_.size() && text_[at_] == '('; }
  RawWord read_arithmetic();
  // Heredocs are read when their line ends.
  void expect_heredoc(Redirect* redirect, bool strip_tabs) {
    heredocs_.push_back({redirect, strip_tabs});
  }
  void read_heredocs();

  [[noreturn]] void fail(const std::string& what, int line) const {
    throw_error(ErrorCode::kInvalidArgument, "{}:{}: {}", origin_, line, what);
  }
  int line() const { return line_; }

 private:
  ShellToken read();
  ShellToken read_word();
  void skip_blanks();
  size_t operator_length() const;
  void advance(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  std::string_view text_;
  const std::string& origin_;
  size_t at_ = 0;
  int line_;
  bool in_test_ = false;
  bool ready_ = false;
  ShellToken token_;
  std::vector<std::pair<Redirect*, bool>> heredocs_;
};

}  // namespace plait
