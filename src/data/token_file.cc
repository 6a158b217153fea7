#include "data/token_file.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/error.h"

namespace plait {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr int64_t kVersionOffset = 9;
constexpr int64_t kTypeOffset = 17;
constexpr int64_t kCountsOffset = 18;
constexpr int64_t kHeaderBytes = 34;
constexpr int64_t kFloat64Code = 6;
constexpr int64_t kFloat32Code = 7;

template <typename T>
T load(std::span<const std::byte> bytes, int64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename T>
T load_entry(std::span<const std::byte> array, int64_t entry) {
  return load<T>(array, entry * static_cast<int64_t>(sizeof(T)));
}

// Throws with the index file's name and a byte offset.
class Checker {
 public:
  Checker(std::span<const std::byte> bytes, const TokenIndexOptions& options)
      : bytes_(bytes), options_(options) {}

  [[noreturn]] void fail(int64_t offset, const std::string& what) const {
    throw_error(ErrorCode::kCorruptData, "{}: byte {}: {}", options_.file, offset, what);
  }

  void check_header() const {
    const int64_t size = this->size();
    if (size < kHeaderBytes) {
      fail(size, fmt::format("the file ends inside its {}-byte header", kHeaderBytes));
    }
    if (std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) != 0) {
      fail(0, "the magic MMIDIDX is missing; this is no token index");
    }
    const auto version = load<uint64_t>(bytes_, kVersionOffset);
    if (version != 1) {
      fail(kVersionOffset, fmt::format("version {} is unknown; only 1 is", version));
    }
  }

  TokenType token_type() const {
    const auto code = std::to_integer<int64_t>(bytes_[kTypeOffset]);
    if (code == kFloat64Code || code == kFloat32Code) {
      throw_error(ErrorCode::kNotImplemented, "{}: byte {}: float tokens are not implemented",
                  options_.file, kTypeOffset);
    }
    if (code == 0 || code > 8) {
      fail(kTypeOffset, fmt::format("token type {} is unknown; 1 to 8 are", code));
    }
    return static_cast<TokenType>(code);
  }

  // A count in the header, small enough for the file to hold its entries.
  int64_t count(int64_t offset, int64_t entry_bytes) const {
    const auto value = load<uint64_t>(bytes_, offset);
    if (value > static_cast<uint64_t>((size() - kHeaderBytes) / entry_bytes)) {
      fail(offset,
           fmt::format("a count of {} does not fit into a file of {} bytes; it may have been "
                       "cut short",
                       value, size()));
    }
    return static_cast<int64_t>(value);
  }

  // Lengths (int32) and pointers follow one another through the .bin file. Returns its tokens.
  int64_t check_sequences(int64_t lengths_offset, const TokenIndex& index) const {
    const std::span<const std::byte> lengths = bytes_.subspan(static_cast<size_t>(lengths_offset));
    const int64_t pointers_offset = lengths_offset + 4 * index.num_sequences;
    const int64_t size_of_token = token_size(index.type);
    int64_t cursor = 0;
    for (int64_t i = 0; i < index.num_sequences; ++i) {
      const int64_t length = load_entry<int32_t>(lengths, i);
      if (length < 0) {
        fail(lengths_offset + 4 * i, fmt::format("sequence {} has the length {}", i, length));
      }
      const auto pointer = load_entry<int64_t>(index.pointers, i);
      if (pointer != cursor) {
        fail(pointers_offset + 8 * i,
             fmt::format("sequence {} starts at byte {} of {}, but the one before ends at {}", i,
                         pointer, options_.bin_file, cursor));
      }
      cursor += length * size_of_token;  // at most 2^31 * 8 * entries of a real file: no overflow
      if (cursor > options_.bin_bytes) {
        fail(lengths_offset + 4 * i,
             fmt::format(
                 "sequence {} ends at byte {} of {}, which has {}; it may have been cut short", i,
                 cursor, options_.bin_file, options_.bin_bytes));
      }
    }
    if (cursor != options_.bin_bytes) {
      throw_error(ErrorCode::kCorruptData,
                  "{}: byte {}: {} bytes behind the last sequence of {} belong to none",
                  options_.bin_file, cursor, options_.bin_bytes - cursor, options_.file);
    }
    return cursor / size_of_token;
  }

  void check_documents(int64_t documents_offset, const TokenIndex& index) const {
    int64_t previous = 0;
    for (int64_t i = 0; i <= index.num_documents; ++i) {
      const auto first = load_entry<int64_t>(index.documents, i);
      if ((i == 0 && first != 0) || first < previous || first > index.num_sequences) {
        fail(documents_offset + 8 * i,
             fmt::format("document {} starts at sequence {}, but must be {} to {}", i, first,
                         previous, i == 0 ? 0 : index.num_sequences));
      }
      previous = first;
    }
    if (previous != index.num_sequences) {
      fail(documents_offset + 8 * index.num_documents,
           fmt::format("the last document ends at sequence {} of {}", previous,
                       index.num_sequences));
    }
  }

  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  std::span<const std::byte> bytes_;
  const TokenIndexOptions& options_;
};

template <typename T>
void read_tokens(std::span<const std::byte> bytes, std::span<int32_t> out, int64_t& bad) {
  bad = -1;
  for (size_t i = 0; i < out.size(); ++i) {
    T token;
    std::memcpy(&token, bytes.data() + i * sizeof(T), sizeof(T));
    if constexpr (std::numeric_limits<T>::is_signed) {
      if (token < 0 || static_cast<int64_t>(token) > std::numeric_limits<int32_t>::max()) {
        bad = static_cast<int64_t>(i);
        return;
      }
    }
    out[i] = static_cast<int32_t>(token);  // NOLINT(bugprone-signed-char-misuse): kInt8 is signed
  }
}

// Continues `crc` with all of `bytes`, or with equally spaced pieces, the last one included.
uint32_t sampled_checksum(std::span<const std::byte> bytes, uint32_t crc) {
  constexpr size_t kPieces = 256;
  constexpr size_t kPieceBytes = size_t{64} << 10;
  if (bytes.size() <= kPieces * kPieceBytes) {
    return crc32c(bytes, crc);
  }
  const size_t last = bytes.size() - kPieceBytes;
  for (size_t i = 0; i < kPieces; ++i) {
    crc = crc32c(bytes.subspan(last / (kPieces - 1) * i, kPieceBytes), crc);
  }
  return crc32c(bytes.subspan(last), crc);
}

}  // namespace

int64_t token_size(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
    case TokenType::kInt8:
      return 1;
    case TokenType::kInt16:
    case TokenType::kUint16:
      return 2;
    case TokenType::kInt32:
      return 4;
    case TokenType::kInt64:
      return 8;
  }
  return 0;
}

int64_t TokenIndex::document_begin(int64_t document) const {
  const auto sequence = load_entry<int64_t>(documents, document);
  return sequence == num_sequences ? num_tokens
                                   : load_entry<int64_t>(pointers, sequence) / token_size(type);
}

TokenIndex parse_token_index(std::span<const std::byte> bytes, const TokenIndexOptions& options) {
  const Checker checker(bytes, options);
  checker.check_header();
  TokenIndex index;
  index.type = checker.token_type();
  index.num_sequences = checker.count(kCountsOffset, 12);
  const int64_t num_boundaries = checker.count(kCountsOffset + 8, 8);
  if (num_boundaries < 1) {
    checker.fail(kCountsOffset + 8, "the list of documents is empty; even no document has its end");
  }
  index.num_documents = num_boundaries - 1;
  const int64_t pointers_offset = kHeaderBytes + 4 * index.num_sequences;
  const int64_t documents_offset = pointers_offset + 8 * index.num_sequences;
  const int64_t end = documents_offset + 8 * num_boundaries;
  if (end + index.num_sequences == checker.size() && index.num_sequences > 0) {
    throw_error(ErrorCode::kNotImplemented,
                "{}: byte {}: multimodal files (a mode per sequence) are not implemented",
                options.file, end);
  }
  if (end != checker.size()) {
    checker.fail(checker.size(),
                 fmt::format("{} sequences and {} document boundaries need {} bytes, "
                             "the file has {}",
                             index.num_sequences, num_boundaries, end, checker.size()));
  }
  const auto part = [&](int64_t offset, int64_t count) {
    return bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(8 * count));
  };
  index.pointers = part(pointers_offset, index.num_sequences);
  index.documents = part(documents_offset, num_boundaries);
  index.num_tokens = checker.check_sequences(kHeaderBytes, index);
  checker.check_documents(documents_offset, index);
  return index;
}

TokenFile::TokenFile(const std::string& path)
    : idx_(token_file_prefix(path) + ".idx"), bin_(token_file_prefix(path) + ".bin") {
  index_ =
      parse_token_index(idx_.bytes(), {.file = idx_.path(),
                                       .bin_file = bin_.path(),
                                       .bin_bytes = static_cast<int64_t>(bin_.bytes().size())});
}

void TokenFile::read(int64_t begin, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  CHECK(begin >= 0 && count <= index_.num_tokens && begin <= index_.num_tokens - count);
  const int64_t size = token_size(index_.type);
  const std::span<const std::byte> bytes =
      bin_.bytes().subspan(static_cast<size_t>(begin * size), static_cast<size_t>(count * size));
  int64_t bad = -1;
  switch (index_.type) {
    case TokenType::kUint8:
      read_tokens<uint8_t>(bytes, out, bad);
      break;
    case TokenType::kInt8:
      read_tokens<int8_t>(bytes, out, bad);
      break;
    case TokenType::kInt16:
      read_tokens<int16_t>(bytes, out, bad);
      break;
    case TokenType::kUint16:
      read_tokens<uint16_t>(bytes, out, bad);
      break;
    case TokenType::kInt32:
      read_tokens<int32_t>(bytes, out, bad);
      break;
    case TokenType::kInt64:
      read_tokens<int64_t>(bytes, out, bad);
      break;
  }
  if (bad >= 0) {
    throw_error(
        ErrorCode::kCorruptData,
        "{}: byte {}: the token is no token id (0 to 2147483647); check the type in the .idx "
        "file",
        bin_.path(), (begin + bad) * size);
  }
}

std::string TokenFile::content_id() const {
  const uint32_t crc = sampled_checksum(bin_.bytes(), sampled_checksum(idx_.bytes(), 0));
  return fmt::format("{} tokens in {} documents, checksum {:08x}", index_.num_tokens,
                     index_.num_documents, crc);
}

int64_t TokenFile::document_of(int64_t token) const {
  CHECK(token >= 0 && token < index_.num_tokens);
  // The last document that begins at or before `token`.
  int64_t low = 0;
  int64_t high = index_.num_documents;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (index_.document_begin(middle) <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

std::string token_file_prefix(const std::string& path) {
  for (const char* extension : {".bin", ".idx"}) {
    if (path.ends_with(extension)) {
      return path.substr(0, path.size() - 4);
    }
  }
  return path;
}

}  // namespace plait
