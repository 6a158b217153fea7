// Token files in Megatron's format: PREFIX.bin holds the tokens of all documents one after another,
// PREFIX.idx (magic MMIDIDX, version 1) the type of a token, the length and byte offset of every
// sequence, and at which sequence each document starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace plait {

// Token types that an .idx file may name, with Megatron's codes.
enum class TokenType : uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint16 = 8,
};
int64_t token_size(TokenType type);

// The byte tokenizer's ids: a byte's value, and the mark behind each document.
inline constexpr int32_t kEndOfDocument = 256;
inline constexpr int64_t kByteVocabSize = 257;

// The content of an .idx file, checked. Refers to its bytes.
struct TokenIndex {
  TokenType type = TokenType::kUint16;
  int64_t num_sequences = 0;
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  std::span<const std::byte> pointers;   // int64 each, not aligned
  std::span<const std::byte> documents;  // likewise, num_documents + 1 of them

  // First token of a document; num_tokens for `document` == num_documents.
  int64_t document_begin(int64_t document) const;
};

struct TokenIndexOptions {
  std::string_view file;      // for messages
  std::string_view bin_file;  // for messages
  int64_t bin_bytes = 0;
};
// Checks everything: magic, version, type, counts against the size, sequences that follow one
// another from byte 0 to the end of the .bin file, documents that rise from 0 to the number of
// sequences. Errors: kCorruptData with file and byte offset; kNotImplemented for float tokens and
// multimodal files.
TokenIndex parse_token_index(std::span<const std::byte> bytes, const TokenIndexOptions& options);

// A memory-mapped pair. Thread-safe; movable.
class TokenFile {
 public:
  // `path` is PREFIX, PREFIX.bin or PREFIX.idx. Errors: kNotFound, kIo, and parse_token_index's.
  explicit TokenFile(const std::string& path);

  int64_t num_tokens() const { return index_.num_tokens; }
  int64_t num_documents() const { return index_.num_documents; }
  TokenType type() const { return index_.type; }
  const TokenIndex& index() const { return index_; }
  const std::string& bin_path() const { return bin_.path(); }

  // Tokens [begin, begin + out.size()) of the concatenated documents.
  // Requires: the range lies in [0, num_tokens]. Errors: kCorruptData with file and byte offset for
  // a token below 0 or above 2^31 - 1.
  void read(int64_t begin, std::span<int32_t> out) const;

  // Tokens, documents and a checksum: of the whole files up to 16 MiB each, of 256 pieces spread
  // over larger ones.
  std::string content_id() const;

  // The document that holds `token`.
  int64_t document_of(int64_t token) const;

 private:
  MappedFile idx_;
  MappedFile bin_;
  TokenIndex index_;
};

// PREFIX of PREFIX.bin, PREFIX.idx or PREFIX.
std::string token_file_prefix(const std::string& path);

}  // namespace plait
