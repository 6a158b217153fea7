// From a template's text to tokens, with Jinja's rules for white space.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait::jinja {

enum class TokenKind : uint8_t {
  kText,      // outside of tags
  kBlock,     // {%
  kBlockEnd,  // %}
  kPrint,     // {{
  kPrintEnd,  // }}
  kName,
  kInteger,
  kFloat,
  kString,  // unescaped
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int64_t line = 1;
};

// trim_blocks and lstrip_blocks are on, as in HF transformers; the source's last line break is
// dropped and all line breaks become \n. Ends with kEnd. Errors: kCorruptData with origin and line.
std::vector<Token> tokenize(const std::string& source, const std::string& origin);

}  // namespace plait::jinja
