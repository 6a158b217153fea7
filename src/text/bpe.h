// Byte pair encoding of one piece.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer_spec.h"

namespace plait {

// Token bytes to id: open addressing over one block of bytes.
class TokenIndex {
 public:
  // The first of equal tokens wins; empty ones are left out. Refers to `tokens`.
  explicit TokenIndex(const std::vector<std::string>& tokens);
  int32_t find(std::string_view bytes) const;  // -1: none
  size_t longest() const { return longest_; }

 private:
  // Short tokens are told apart without a look at their bytes elsewhere.
  struct Slot {
    uint64_t head = 0;  // the first eight bytes
    uint32_t tag = 0;   // of the hash and the size
    int32_t id = -1;
  };
  static Slot make_slot(std::string_view bytes, uint64_t hash);
  const std::vector<std::string>* tokens_;
  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t longest_ = 0;
};

// Merges the pair of least rank, the leftmost first, until none is left. Thread-safe: what it
// learns about tokens (whether merging gives the token itself) is kept in atomics.
class Bpe {
 public:
  // Refers to spec.tokens. Errors: kCorruptData for a merge whose parts or result are no tokens.
  explicit Bpe(const TokenizerSpec& spec);

  // Appends the ids of `piece`. O(n log n); bytes without a token are dropped, as HF does.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

  const TokenIndex& index() const { return index_; }

 private:
  enum Direct : uint8_t { kUnknown, kYes, kNo };
  struct Merge {
    int32_t left = 0, right = 0, result = 0;
  };
  struct PairSlot {
    uint64_t pair = kNoPair;
    int32_t rank = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr int32_t kNoRank = INT32_MAX;

  static uint64_t pair_of(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) |
           static_cast<uint32_t>(right);
  }
  void add_merge(const TokenizerSpec& spec, size_t rank);
  PairSlot& pair_slot(uint64_t pair);
  int32_t rank_of(int32_t left, int32_t right) const;
  void merge_bytes(std::string_view piece, std::vector<int32_t>& ids) const;
  void merge_short(std::string_view piece, std::vector<int32_t>& ids) const;

  TokenIndex index_;
  std::vector<Merge> merges_;  // by rank
  std::vector<PairSlot> pairs_;
  size_t pair_mask_ = 0;
  std::vector<int32_t> byte_ids_;    // 256; -1: none
  std::vector<int32_t> byte_ranks_;  // of two bytes' pair, 256 x 256
  bool ignore_merges_ = false;
  std::unique_ptr<std::atomic<uint8_t>[]> direct_;  // Direct by id
};

}  // namespace plait
