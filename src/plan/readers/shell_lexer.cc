#include "plan/readers/shell_lexer.h"

#include <array>
#include <cctype>

namespace plait {
namespace {

// True if `text` is NAME= , NAME+= or NAME[...]=, so that a parenthesis opens an array.
bool is_assignment_prefix(std::string_view text) {
  if (text.empty() || text.back() != '=' || std::isdigit(static_cast<unsigned char>(text[0]))) {
    return false;
  }
  text.remove_suffix(1);
  if (!text.empty() && text.back() == '+') {
    text.remove_suffix(1);
  }
  return !text.empty() && std::all_of(text.begin(), text.end(), is_shell_name_char);
}

// One past the closing `close` of a region that begins behind its opening bracket.
size_t skip_brackets(std::string_view text, size_t at, char open, int depth) {
  const char close = open == '(' ? ')' : '}';
  int level = 1;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '\\') {
      at += 2;
    } else if (c == '\'' || c == '"' || c == '`' || c == '$') {
      at = skip_shell_construct(text, at, depth + 1);
      if (at == kNoEnd) {
        return kNoEnd;
      }
    } else if (c == '#' && open == '(' && at > 0 &&
               (is_shell_blank(text[at - 1]) || text[at - 1] == '\n')) {
      at = std::min(text.find('\n', at), text.size());
    } else {
      level += c == open ? 1 : c == close ? -1 : 0;
      ++at;
      if (level == 0) {
        return at;
      }
    }
  }
  return kNoEnd;
}

size_t skip_quoted(std::string_view text, size_t at, char quote, int depth) {
  while (at < text.size() && text[at] != quote) {
    if (text[at] == '\\') {
      at += 2;
    } else if (quote == '"' && (text[at] == '$' || text[at] == '`')) {
      at = skip_shell_construct(text, at, depth + 1);
      if (at == kNoEnd) {
        return kNoEnd;
      }
    } else {
      ++at;
    }
  }
  return at < text.size() ? at + 1 : kNoEnd;
}

}  // namespace

size_t skip_shell_construct(std::string_view text, size_t begin, int depth) {
  if (depth > kMaxShellDepth || begin >= text.size()) {
    return kNoEnd;
  }
  const char c = text[begin];
  if (c == '\'') {
    const size_t end = text.find('\'', begin + 1);
    return end == kNoEnd ? kNoEnd : end + 1;
  }
  if (c == '"' || c == '`') {
    return skip_quoted(text, begin + 1, c, depth);
  }
  if (c == '(') {
    return skip_brackets(text, begin + 1, '(', depth);
  }
  const char follows = begin + 1 < text.size() ? text[begin + 1] : '\0';
  if (c == '<' || c == '>') {
    return skip_brackets(text, begin + 2, '(', depth);
  }
  if (follows == '(' || follows == '{') {
    return skip_brackets(text, begin + 2, follows, depth);
  }
  if (follows == '\'') {
    return skip_quoted(text, begin + 2, '\'', depth);
  }
  return begin + 1;
}

void ShellLexer::skip_blanks() {
  while (at_ < text_.size()) {
    if (is_shell_blank(text_[at_])) {
      ++at_;
    } else if (text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
      advance(at_ + 2);
    } else if (text_[at_] == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

size_t ShellLexer::operator_length() const {
  static constexpr std::array<std::string_view, 23> kOperators = {
      "<<<", "<<-", "&>>", ";;&", "&&", "||", ";;", ";&", "<<", ">>", "<&", ">&",
      "&>",  ">|",  "<>",  "|&",  ";",  "&",  "|",  "(",  ")",  "<",  ">"};
  for (const std::string_view op : kOperators) {
    if (text_.substr(at_, op.size()) == op) {
      return op.size();
    }
  }
  return 0;
}

ShellToken ShellLexer::read() {
  skip_blanks();
  ShellToken token;
  token.word.line = line_;
  if (at_ >= text_.size()) {
    return token;
  }
  if (text_[at_] == '\n') {
    token.kind = ShellToken::Kind::kOperator;
    token.word.text = "\n";
    advance(at_ + 1);
    return token;
  }
  // "2>&1": the number belongs to the redirection, which is not followed anyway.
  size_t digits = at_;
  while (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') {
    ++digits;
  }
  if (!in_test_ && digits > at_ && digits < text_.size() &&
      (text_[digits] == '<' || text_[digits] == '>')) {
    at_ = digits;
  }
  const bool process = text_.substr(at_, 2) == "<(" || text_.substr(at_, 2) == ">(";
  const size_t length = process ? 0 : operator_length();
  if (length > 0) {
    token.kind =
        in_test_ && text_[at_] != ';' ? ShellToken::Kind::kWord : ShellToken::Kind::kOperator;
    token.word.text = std::string(text_.substr(at_, length));
    at_ += length;
    return token;
  }
  return read_word();
}

ShellToken ShellLexer::read_word() {
  ShellToken token;
  token.kind = ShellToken::Kind::kWord;
  token.word.line = line_;
  const size_t begin = at_;
  size_t end = begin;
  while (end < text_.size()) {
    const char c = text_[end];
    if (c == '\\') {
      end = std::min(end + 2, text_.size());
      continue;
    }
    const bool array = c == '(' && is_assignment_prefix(text_.substr(begin, end - begin));
    const bool process = (c == '<' || c == '>') && text_.substr(end + 1, 1) == "(" && end == begin;
    const bool group = c == '(' && in_test_ && end > begin;  // a regular expression
    if (c == '\'' || c == '"' || c == '`' || c == '$' || array || process || group) {
      const size_t after = skip_shell_construct(text_, end);
      if (after == kNoEnd) {
        fail(fmt::format("{} is never closed", array ? "the array's (" : std::string(1, c)),
             line_ + static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(begin),
                                                 text_.begin() + static_cast<std::ptrdiff_t>(end),
                                                 '\n')));
      }
      end = after;
      continue;
    }
    if (is_shell_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' ||
        c == ')' || c == '<' || c == '>') {
      break;
    }
    ++end;
  }
  token.word.text = std::string(text_.substr(begin, end - begin));
  advance(end);
  return token;
}

RawWord ShellLexer::read_arithmetic() {
  RawWord raw{"", line_};
  const size_t end = skip_shell_construct(text_, at_);
  if (end == kNoEnd || text_.substr(end, 1) != ")") {
    fail("(( is never closed by ))", line_);
  }
  raw.text = std::string(text_.substr(at_ + 1, end - at_ - 2));
  advance(end + 1);
  return raw;
}

void ShellLexer::read_heredocs() {
  for (const auto& [redirect, strip_tabs] : std::exchange(heredocs_, {})) {
    std::string delimiter;
    for (const char c : redirect->target.text) {
      if (c == '\'' || c == '"' || c == '\\') {
        redirect->body_quoted = true;
      } else {
        delimiter += c;
      }
    }
    redirect->body.line = line_;
    while (true) {
      if (at_ >= text_.size()) {
        fail(fmt::format("the here-document has no closing line '{}'", delimiter),
             redirect->target.line);
      }
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view row = text_.substr(at_, end - at_);
      while (strip_tabs && row.starts_with('\t')) {
        row.remove_prefix(1);
      }
      const bool last = row == delimiter;
      if (!last) {
        redirect->body.text += row;
        redirect->body.text += '\n';
      }
      advance(std::min(end + 1, text_.size()));
      if (last) {
        break;
      }
    }
  }
}

}  // namespace plait
