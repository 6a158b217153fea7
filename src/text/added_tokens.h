// Finds added tokens in text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.h"

namespace plait {

// Bytes of a text that come from a user: sorted, disjoint, not empty.
struct ByteRange {
  size_t begin = 0, end = 0;
};

struct AddedMatch {
  size_t begin = 0, end = 0;  // with the white space that the token takes
  int32_t id = -1;
};

struct AddedSearch {
  bool recognise_special = true;
  const std::vector<ByteRange>* user = nullptr;  // null: none
};

// A trie over the contents. Immutable and thread-safe.
class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(const std::vector<AddedToken>& tokens);

  // From left to right the longest token at each place, without overlap. Special tokens are left
  // out if the search says so or if one of their bytes is a user's.
  std::vector<AddedMatch> find(std::string_view text, const AddedSearch& search) const;
  bool empty() const { return tokens_.empty(); }

 private:
  struct Edge {
    uint8_t byte = 0;
    int32_t node = 0;
  };
  struct Node {
    std::vector<Edge> edges;  // ascending
    int32_t token = -1;       // index into tokens_
  };
  int32_t child(int32_t node, uint8_t byte) const;
  const AddedToken* longest_at(std::string_view text, size_t position,
                               const AddedSearch& search) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<bool, 256> begins_{};
};

}  // namespace plait
