#include "text/detokenizer.h"

#include <algorithm>

#include "base/utf8.h"

namespace plait {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Bytes that a character with this first byte has; 0: none starts so.
size_t sequence_size(uint8_t lead) {
  if (lead < 0x80) {
    return 1;
  }
  if (lead < 0xc2 || lead > 0xf4) {
    return 0;
  }
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

bool second_byte_fits(uint8_t lead, uint8_t byte) {
  const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  return byte >= low && byte <= high;
}

// How many bytes at the start of `bytes` belong to one character: the longest prefix of one.
size_t maximal_part(std::string_view bytes, size_t needed) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (bytes.size() < 2 || !second_byte_fits(at(0), at(1))) {
    return 1;
  }
  size_t size = 2;
  while (size < needed && size < bytes.size() && (at(size) & 0xc0) == 0x80) {
    ++size;
  }
  return size;
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined;
  std::string_view input = bytes;
  if (!pending_.empty()) {
    joined = pending_ + std::string(bytes);
    input = joined;
    pending_.clear();
  }
  std::string text;
  text.reserve(input.size());
  while (!input.empty()) {
    const size_t valid = std::min(find_invalid_utf8(input), input.size());
    text += input.substr(0, valid);
    input.remove_prefix(valid);
    if (input.empty()) {
      break;
    }
    const size_t needed = sequence_size(static_cast<uint8_t>(input.front()));
    const size_t part = needed == 0 ? 1 : maximal_part(input, needed);
    if (needed != 0 && part == input.size()) {  // more may come
      pending_ = input;
      break;
    }
    text += kReplacement;
    input.remove_prefix(part);
  }
  return text;
}

std::string Utf8Stream::finish() {
  const bool dangling = !pending_.empty();
  pending_.clear();
  return dangling ? std::string(kReplacement) : std::string();
}

std::string Detokenizer::push(int32_t id) {
  if (options_.skip_special_tokens && tokenizer_->is_special(id)) {
    return {};
  }
  return stream_.push(tokenizer_->token_bytes(id));
}

std::string Detokenizer::finish() {
  return stream_.finish();
}

}  // namespace plait
