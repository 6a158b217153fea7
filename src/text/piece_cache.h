// Remembers the pieces of one text.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace plait {

// Words come back: their ids are copied from where the output already has them. Direct-mapped, so a
// hostile text costs no more than no cache at all. `text` must outlive it.
class PieceCache {
 public:
  explicit PieceCache(std::string_view text) : text_(text) {
    if (text.size() >= kTextMin) {
      slots_.resize(std::min(kSlotsMax, std::bit_ceil(text.size() / 16)));
    }
  }

  // Appends the ids of the piece text[begin, end) to `ids`, by `encode(piece, ids)` if it is new.
  template <typename Encode>
  void append(size_t begin, size_t end, std::vector<int32_t>& ids, const Encode& encode) {
    const std::string_view piece = text_.substr(begin, end - begin);
    if (slots_.empty() || piece.size() > kPieceMax) {
      encode(piece, ids);
      return;
    }
    Slot& slot = slots_[hash(piece) & (slots_.size() - 1)];
    if (slot.size == piece.size() && text_.substr(slot.begin, slot.size) == piece) {
      const size_t old_size = ids.size();
      ids.resize(old_size + slot.num_ids);
      std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(slot.first_id), slot.num_ids,
                  ids.begin() + static_cast<std::ptrdiff_t>(old_size));
      return;
    }
    const size_t first_id = ids.size();
    encode(piece, ids);
    slot = {begin, first_id, static_cast<uint32_t>(piece.size()),
            static_cast<uint32_t>(ids.size() - first_id)};
  }

 private:
  struct Slot {
    size_t begin = 0, first_id = 0;
    uint32_t size = 0;  // 0: free
    uint32_t num_ids = 0;
  };
  static constexpr size_t kTextMin = 1024;
  static constexpr size_t kSlotsMax = 8192;
  static constexpr size_t kPieceMax = 32;

  static uint64_t hash(std::string_view piece) {
    uint64_t hash = piece.size();
    for (size_t i = 0; i < piece.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, piece.data() + i, std::min<size_t>(8, piece.size() - i));
      hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 32;
    }
    return hash;
  }

  std::string_view text_;
  std::vector<Slot> slots_;
};

}  // namespace plait
