// Byte-level BPE, as HF tokenizers does it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_segment.h"
#include "text/tokenizer_spec.h"

namespace plait {

struct EncodeOptions {
  bool add_special_tokens = false;  // BOS and the like, as the post-processor says
  // false: text that spells a special token is plain text. Other added tokens are always
  // recognised.
  bool recognise_special = true;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

// Immutable and thread-safe; cheap to move. Encoding is O(n log n) in the worst case and uses
// about 40 bytes a byte of the longest piece that the split leaves whole.
class Tokenizer {
 public:
  // Errors: kCorruptData (a merge whose result is no token, an id twice, ...).
  explicit Tokenizer(TokenizerSpec spec);
  // Errors: as read_hf_tokenizer.
  static Tokenizer load_hf(const std::string& directory);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Errors: kInvalidArgument if `text` is not UTF-8 or is 2 GiB or longer.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The segments as one text; special tokens are recognised where none of their bytes is from the
  // user. Adds no BOS: templates write their own. Errors: as above.
  std::vector<int32_t> encode(std::span<const TextSegment> segments) const;

  // Bytes that are not UTF-8 become U+FFFD (one for each maximal part of a character, as Python and
  // Rust do). Ids without a token add nothing.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // Raw bytes of one token, perhaps part of a character; empty for an id without a token.
  std::string_view token_bytes(int32_t id) const;
  // The token's bytes with invalid UTF-8 replaced: what logprobs and /tokenize show.
  std::string token_text(int32_t id) const;
  bool has_token(int32_t id) const;
  bool is_special(int32_t id) const;
  std::optional<int32_t> find_token(std::string_view bytes) const;

  // One more than the largest id that has a token; a model may have more rows than that.
  int64_t vocab_size() const;
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;
  const std::string& chat_template() const;  // empty if the files have none
  const std::string& origin() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace plait
