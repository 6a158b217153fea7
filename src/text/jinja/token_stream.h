// The parser's view of the tokens. Internal to jinja/.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/jinja/lexer.h"

namespace plait::jinja {

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, std::string origin)
      : tokens_(std::move(tokens)), origin_(std::move(origin)) {}

  const Token& current() const { return tokens_[next_]; }
  const Token& ahead() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  Token take() {
    Token token = tokens_[next_];
    next_ += next_ + 1 < tokens_.size() ? 1 : 0;
    return token;
  }
  int64_t line() const { return current().line; }
  bool is_kind(TokenKind kind) const { return current().kind == kind; }
  bool is_operator(std::string_view text) const {
    return is_kind(TokenKind::kOperator) && current().text == text;
  }
  bool is_name(std::string_view text) const {
    return is_kind(TokenKind::kName) && current().text == text;
  }
  bool take_operator(std::string_view text) {
    const bool found = is_operator(text);
    if (found) {
      take();
    }
    return found;
  }
  bool take_name(std::string_view text) {
    const bool found = is_name(text);
    if (found) {
      take();
    }
    return found;
  }
  void expect_operator(std::string_view text) {
    if (!take_operator(text)) {
      fail(fmt::format("'{}' is needed instead of {}", text, shown()));
    }
  }
  void expect_name(std::string_view text) {
    if (!take_name(text)) {
      fail(fmt::format("'{}' is needed instead of {}", text, shown()));
    }
  }
  std::string expect_any_name() {
    if (!is_kind(TokenKind::kName)) {
      fail("a name is needed instead of " + shown());
    }
    return take().text;
  }
  void expect_kind(TokenKind kind, const char* what) {
    if (!is_kind(kind)) {
      fail(fmt::format("{} is needed instead of {}", what, shown()));
    }
    take();
  }

  std::string shown() const {
    switch (current().kind) {
      case TokenKind::kEnd:
        return "the end of the template";
      case TokenKind::kText:
        return "text";
      case TokenKind::kBlock:
        return "{%";
      case TokenKind::kBlockEnd:
        return "%}";
      case TokenKind::kPrint:
        return "{{";
      case TokenKind::kPrintEnd:
        return "}}";
      default:
        return "'" + current().text.substr(0, 40) + "'";
    }
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw_error(ErrorCode::kCorruptData, "{}: line {}: {}", origin_, line(), what);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw_error(ErrorCode::kNotImplemented, "{}: line {}: {} is not implemented", origin_, line(),
                what);
  }

 private:
  std::vector<Token> tokens_;
  std::string origin_;
  size_t next_ = 0;
};

}  // namespace plait::jinja
