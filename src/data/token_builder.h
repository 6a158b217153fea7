// Text to token files and back, with byte tokens (base/utf8.h, data/token_file.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/token_file.h"

namespace plait {

struct BuildOptions {
  std::string input;   // a file, or a folder that is searched through
  std::string output;  // prefix: PREFIX.bin and PREFIX.idx are written
};

struct BuildReport {
  int64_t num_documents = 0;
  int64_t num_tokens = 0;  // end-of-document marks included
  int64_t text_bytes = 0;
  std::vector<std::string> skipped;  // "PATH: reason", in order of path
};

// Writes one document per file: its bytes as tokens, then kEndOfDocument, as uint16. In a folder,
// files are taken in order of their path; those that are binary (a zero byte), not UTF-8 or empty
// are skipped, and so are names that start with a dot. Both output files appear together or, after
// an error, neither changes. Errors: kNotFound; kInvalidArgument when no text is found or a single
// file is not text, with the byte; kResourceExhausted, kIo.
BuildReport build_token_file(const BuildOptions& options);

struct ExportOptions {
  std::string output;            // a file, or with split_documents a folder (made if missing)
  bool split_documents = false;  // document_000000.txt, ... instead of one file with all
};

// The text that byte tokens came from; end-of-document marks are left out. Returns the bytes
// written. Errors: kInvalidArgument for a token that is no byte token, with document and token;
// kResourceExhausted, kIo.
int64_t export_text(const TokenFile& tokens, const ExportOptions& options);

}  // namespace plait
