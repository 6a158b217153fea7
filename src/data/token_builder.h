// Text to token files and back.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_file.h"

namespace plait {

// How text becomes tokens, and tokens text.
struct TextCodec {
  using Put = std::function<void(std::span<const int32_t> tokens)>;
  // Calls put with the tokens of a text, piece by piece in order.
  std::function<void(std::string_view text, const Put& put)> encode;
  // The bytes of a token; an empty one has none. Ids below vocab_size only.
  std::function<std::string_view(int32_t token)> bytes;
  int32_t end_of_document = 0;  // behind each document
  int64_t vocab_size = 0;
};

// A byte's value is its token, kEndOfDocument ends documents (data/token_file.h).
TextCodec byte_codec();

struct BuildOptions {
  std::string input;   // a file, or a folder that is searched through
  std::string output;  // prefix: PREFIX.bin and PREFIX.idx are written
  TextCodec codec = byte_codec();
  // Called after each document with the bytes of text so far. May be empty.
  std::function<void(int64_t text_bytes)> progress = {};
};

struct BuildReport {
  int64_t num_documents = 0;
  int64_t num_tokens = 0;  // end-of-document marks included
  int64_t text_bytes = 0;
  std::vector<std::string> skipped;  // "PATH: reason", in order of path
};

// Writes one document per file: its tokens, then the codec's end of a document; as uint16, or int32
// for vocabularies of 65500 and more (Megatron's rule). In a folder, files are taken in order of
// their path; those that are binary (a zero byte), not UTF-8 or empty are skipped, and so are names
// that start with a dot. Both output files appear together or, after an error, neither changes.
// Errors: kNotFound; kInvalidArgument when no text is found or a single file is not text, with the
// byte; the codec's; kResourceExhausted, kIo.
BuildReport build_token_file(const BuildOptions& options);

struct ExportOptions {
  std::string output;            // a file, or with split_documents a folder (made if missing)
  bool split_documents = false;  // document_000000.txt, ... instead of one file with all
  TextCodec codec = byte_codec();
};

// The text that tokens of the codec came from; end-of-document marks are left out. Returns the
// bytes written. Errors: kInvalidArgument for a token beyond the codec's vocabulary, with document
// and token; kResourceExhausted, kIo.
int64_t export_text(const TokenFile& tokens, const ExportOptions& options);

}  // namespace plait
