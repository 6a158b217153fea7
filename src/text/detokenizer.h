// Streaming detokenisation: text as tokens arrive, never half a character.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace plait {

// Turns a stream of bytes into valid UTF-8. Bytes that can no longer become a character turn into
// U+FFFD at once, one for each maximal part; the joined results equal those of one call.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string finish();  // what dangles becomes one U+FFFD

 private:
  std::string pending_;
};

// One sequence's output. Not thread-safe; `tokenizer` must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, const DecodeOptions& options = {})
      : tokenizer_(&tokenizer), options_(options) {}
  // The text that became certain with this token; may be empty.
  std::string push(int32_t id);
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  Utf8Stream stream_;
};

}  // namespace plait
