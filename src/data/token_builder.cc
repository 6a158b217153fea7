#include "data/token_builder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/utf8.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

// Tokens converted at once, and the most in one sequence (lengths are int32 in the index).
constexpr size_t kChunkTokens = size_t{1} << 16;
constexpr int64_t kSequenceTokensMax = int64_t{1} << 30;
// Vocabularies from here on are kept as int32.
constexpr int64_t kUint16VocabEnd = 65500;

// All text candidates below `folder`, ascending, so that the same folder gives the same file.
std::vector<std::string> list_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator iterator(folder, fs::directory_options::skip_permission_denied,
                                            error);
  for (; !error && iterator != fs::recursive_directory_iterator(); iterator.increment(error)) {
    const bool hidden = iterator->path().filename().string().starts_with('.');
    std::error_code ignored;
    if (hidden && iterator->is_directory(ignored)) {
      iterator.disable_recursion_pending();
    } else if (!hidden && iterator->is_regular_file(ignored)) {
      files.push_back(iterator->path().string());
    }
  }
  if (error) {
    throw_error(ErrorCode::kIo, "cannot list '{}': {}", folder, error.message());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Why `text` is not text, or nothing.
std::optional<std::string> find_fault(std::string_view text) {
  if (text.empty()) {
    return "empty";
  }
  const size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    return fmt::format("binary (byte {} is zero)", zero);
  }
  const size_t invalid = find_invalid_utf8(text);
  if (invalid != std::string_view::npos) {
    return fmt::format("not UTF-8 (byte {})", invalid);
  }
  return std::nullopt;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Writes documents to a .bin file and remembers what the .idx file needs.
class PairWriter {
 public:
  PairWriter(const std::string& prefix, const TextCodec& codec)
      : bin_(prefix + ".bin"),
        idx_(prefix + ".idx"),
        codec_(codec),
        type_(codec.vocab_size < kUint16VocabEnd ? TokenType::kUint16 : TokenType::kInt32) {}

  void add_document(std::string_view text) {
    int64_t left = 1;
    codec_.encode(text, [&](std::span<const int32_t> tokens) {
      write_tokens(tokens);
      left += std::ssize(tokens);
    });
    write_tokens(std::span(&codec_.end_of_document, 1));
    while (left > 0) {
      const int64_t length = std::min(left, kSequenceTokensMax);
      lengths_.push_back(static_cast<int32_t>(length));
      pointers_.push_back(next_pointer_);
      next_pointer_ += length * token_size(type_);
      left -= length;
    }
    documents_.push_back(static_cast<int64_t>(lengths_.size()));
  }

  void finish() {
    static constexpr std::string_view kStart("MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17);
    idx_.write(std::as_bytes(std::span(kStart)));
    idx_.write(std::as_bytes(std::span(&type_, 1)));
    const std::array<uint64_t, 2> counts = {lengths_.size(), documents_.size()};
    idx_.write(std::as_bytes(std::span(counts)));
    idx_.write(std::as_bytes(std::span(lengths_)));
    idx_.write(std::as_bytes(std::span(pointers_)));
    idx_.write(std::as_bytes(std::span(documents_)));
    bin_.prepare();
    idx_.prepare();
    bin_.commit();
    idx_.commit();
  }

  int64_t num_documents() const { return static_cast<int64_t>(documents_.size()) - 1; }
  int64_t num_tokens() const { return next_pointer_ / token_size(type_); }

 private:
  void write_tokens(std::span<const int32_t> tokens) {
    if (type_ == TokenType::kInt32) {
      bin_.write(std::as_bytes(tokens));
      return;
    }
    std::vector<uint16_t> narrow;
    for (size_t begin = 0; begin < tokens.size(); begin += kChunkTokens) {
      const std::span<const int32_t> chunk =
          tokens.subspan(begin, std::min(kChunkTokens, tokens.size() - begin));
      narrow.assign(chunk.begin(), chunk.end());
      bin_.write(std::as_bytes(std::span(narrow)));
    }
  }

  AtomicFile bin_;
  AtomicFile idx_;
  const TextCodec& codec_;
  TokenType type_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> pointers_;
  std::vector<int64_t> documents_ = {0};
  int64_t next_pointer_ = 0;
};

// Appends the bytes of one document to `file`.
void export_document(const TokenFile& tokens, int64_t document, const TextCodec& codec,
                     AtomicFile& file) {
  std::vector<int32_t> chunk;
  std::string text;
  const int64_t end = tokens.index().document_begin(document + 1);
  for (int64_t begin = tokens.index().document_begin(document); begin < end;) {
    chunk.resize(static_cast<size_t>(std::min<int64_t>(end - begin, kChunkTokens)));
    tokens.read(begin, chunk);
    text.clear();
    for (size_t i = 0; i < chunk.size(); ++i) {
      if (chunk[i] >= codec.vocab_size) {
        throw_error(
            ErrorCode::kInvalidArgument,
            "{}: token {} (document {}) is {}, beyond the {} tokens of this tokenizer; these "
            "tokens come from another one",
            tokens.bin_path(), begin + static_cast<int64_t>(i), document, chunk[i],
            codec.vocab_size);
      }
      if (chunk[i] != codec.end_of_document) {
        text += codec.bytes(chunk[i]);
      }
    }
    file.write(std::as_bytes(std::span(text)));
    begin += static_cast<int64_t>(chunk.size());
  }
}

}  // namespace

TextCodec byte_codec() {
  TextCodec codec;
  codec.encode = [](std::string_view text, const TextCodec::Put& put) {
    std::vector<int32_t> tokens;
    for (size_t begin = 0; begin < text.size(); begin += kChunkTokens) {
      tokens.clear();
      for (const char c : text.substr(begin, kChunkTokens)) {
        tokens.push_back(static_cast<unsigned char>(c));
      }
      put(tokens);
    }
  };
  codec.bytes = [](int32_t token) {
    static constexpr std::array<char, 256> kBytes = [] {
      std::array<char, 256> bytes{};
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<char>(i);
      }
      return bytes;
    }();
    return std::string_view(&kBytes[static_cast<size_t>(token)], 1);
  };
  codec.end_of_document = kEndOfDocument;
  codec.vocab_size = kByteVocabSize;
  return codec;
}

BuildReport build_token_file(const BuildOptions& options) {
  std::error_code ignored;
  const bool folder = fs::is_directory(options.input, ignored);
  const std::vector<std::string> files =
      folder ? list_files(options.input) : std::vector<std::string>{options.input};
  BuildReport report;
  // Made with the first document: without text, nothing is written.
  std::unique_ptr<PairWriter> writer;
  for (const std::string& path : files) {
    const MappedFile file(path);
    const std::string_view text = as_text(file.bytes());
    if (const std::optional<std::string> fault = find_fault(text)) {
      report.skipped.push_back(fmt::format("{}: {}", path, *fault));
      continue;
    }
    if (writer == nullptr) {
      writer = std::make_unique<PairWriter>(token_file_prefix(options.output), options.codec);
    }
    writer->add_document(text);
    report.text_bytes += static_cast<int64_t>(text.size());
    if (options.progress) {
      options.progress(report.text_bytes);
    }
  }
  if (writer == nullptr) {
    if (!folder) {
      throw_error(ErrorCode::kInvalidArgument, "{}; a file of UTF-8 text is needed",
                  report.skipped.front());
    }
    throw_error(ErrorCode::kInvalidArgument,
                "'{}' holds no text: {} files were looked at, {}; UTF-8 text files are needed",
                options.input, files.size(),
                report.skipped.empty() ? "none skipped" : "the first is " + report.skipped.front());
  }
  writer->finish();
  report.num_documents = writer->num_documents();
  report.num_tokens = writer->num_tokens();
  return report;
}

int64_t export_text(const TokenFile& tokens, const ExportOptions& options) {
  if (!options.split_documents) {
    AtomicFile file(options.output);
    for (int64_t document = 0; document < tokens.num_documents(); ++document) {
      export_document(tokens, document, options.codec, file);
    }
    file.commit();
    return file.bytes_written();
  }
  std::error_code error;
  fs::create_directories(options.output, error);
  if (error) {
    throw_error(ErrorCode::kIo, "cannot create folder '{}': {}", options.output, error.message());
  }
  int64_t bytes = 0;
  for (int64_t document = 0; document < tokens.num_documents(); ++document) {
    AtomicFile file(
        (fs::path(options.output) / fmt::format("document_{:06}.txt", document)).string());
    export_document(tokens, document, options.codec, file);
    file.commit();
    bytes += file.bytes_written();
  }
  return bytes;
}

}  // namespace plait
