// What the tests of text/ share.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace plait {

// Qwen3's own tokenizer, loaded once.
const Tokenizer& qwen3_tokenizer();

// A file of tests/data/text.
std::string read_text_data(const std::string& name);

// A byte-level tokenizer of 256 single bytes, the given tokens and merges (pairs of tokens, each of
// whose results must be in `tokens`).
struct SmallTokenizer {
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<AddedToken> added;  // ids from 1000 on if they have none
};
TokenizerSpec make_spec(const SmallTokenizer& small);

}  // namespace plait
