// What a byte-level BPE tokenizer is made of, whichever file it was read from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plait {

// A token that is looked for in the text before it is split (HF: added_tokens).
struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool special = false;      // skipped by decode on request; see Recognise
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // and behind it
  bool single_word = false;  // only between characters that are no word characters
  bool normalized = false;   // looked for in the normalised text
};

// One step of the pre-tokenizer.
struct SplitStep {
  // Otherwise every character of the class "number" stands alone (HF: Digits, individual_digits).
  bool is_regex = true;
  std::string regex;  // matches are pieces, and so is what lies between them (HF: Isolated)
};

struct TokenizerSpec {
  std::string origin;               // a file, for messages
  std::vector<std::string> tokens;  // raw bytes by id; empty: no such token
  // In rank order, as ids of `tokens`.
  std::vector<std::pair<int32_t, int32_t>> merges;
  std::vector<AddedToken> added;
  std::vector<SplitStep> splits;
  bool nfc = false;
  bool add_prefix_space = false;
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  // Put around the text with EncodeOptions::add_special_tokens.
  std::vector<int32_t> prefix_ids;
  std::vector<int32_t> suffix_ids;
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> pad_id;
  std::string chat_template;  // Jinja; empty if the files have none
};

// The split regexes that are matched by hand-written code; any other goes to PCRE2.
inline constexpr const char* kGpt2SplitRegex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* kLlama3SplitRegex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kQwen2SplitRegex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Reads DIR/tokenizer.json, DIR/tokenizer_config.json and the chat template files.
// Errors: kNotFound; kCorruptData naming file and key; kNotImplemented for a tokenizer that is not
// byte-level BPE (SentencePiece, WordPiece, Unigram) or has a part that is unknown here: nothing is
// ever left out silently.
TokenizerSpec read_hf_tokenizer(const std::string& directory);

// The same from the text of the two files; `config_json` may be empty.
TokenizerSpec parse_hf_tokenizer(const std::string& tokenizer_json, const std::string& config_json,
                                 const std::string& origin);

// The alphabet in which tokenizer files write bytes (GPT-2): printable Latin-1 stands for itself,
// the other bytes are moved to U+0100 and up. Absent if `text` has another character.
std::optional<std::string> decode_byte_alphabet(const std::string& text);

// Appends merges that are written as "a b" in the byte alphabet. Errors: kCorruptData, named.
void add_merges(const std::vector<std::string>& merges, TokenizerSpec& spec);

}  // namespace plait
