#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "text/long_piece.h"

namespace plait {
namespace {

// Pieces of more bytes than this go to the merge queue; below it a scan is faster.
constexpr size_t kShortPiece = 48;

uint64_t mix(uint64_t value) {
  value *= 0x9e3779b97f4a7c15ULL;
  return value ^ (value >> 29);
}

uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = bytes.size() * 0x2545f4914f6cdd1dULL;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    hash = mix(hash ^ word);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
  return mix(mix(hash ^ rest));
}

std::string shown_token(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    text += byte > 0x20 && byte < 0x7f ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return text;
}

}  // namespace

void add_merges(const std::vector<std::string>& merges, TokenizerSpec& spec) {
  const TokenIndex index(spec.tokens);
  const auto find = [&](const std::string& part, const std::string& merge) {
    const int32_t id = index.find(decode_byte_alphabet(part).value_or(part));
    if (id < 0) {
      throw_error(ErrorCode::kCorruptData,
                  "{}: the merge '{}' has the part '{}', which is no token", spec.origin, merge,
                  part);
    }
    return id;
  };
  spec.merges.reserve(spec.merges.size() + merges.size());
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ');
    if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos) {
      throw_error(ErrorCode::kCorruptData,
                  "{}: the merge '{}' is not two tokens with a space between", spec.origin, merge);
    }
    const int32_t left = find(merge.substr(0, space), merge);
    spec.merges.emplace_back(left, find(merge.substr(space + 1), merge));
  }
}

TokenIndex::TokenIndex(const std::vector<std::string>& tokens)
    : tokens_(&tokens), slots_(std::bit_ceil(tokens.size() * 2 + 16)), mask_(slots_.size() - 1) {
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string& token = tokens[id];
    if (token.empty() || find(token) >= 0) {
      continue;
    }
    const uint64_t hash = hash_bytes(token);
    size_t slot = hash & mask_;
    while (slots_[slot].id >= 0) {
      slot = (slot + 1) & mask_;
    }
    slots_[slot] = make_slot(token, hash);
    slots_[slot].id = static_cast<int32_t>(id);
    longest_ = std::max(longest_, token.size());
  }
}

TokenIndex::Slot TokenIndex::make_slot(std::string_view bytes, uint64_t hash) {
  Slot slot;
  std::memcpy(&slot.head, bytes.data(), std::min(bytes.size(), sizeof(slot.head)));
  slot.tag = (static_cast<uint32_t>(hash >> 32) & ~0xffU) |
             static_cast<uint32_t>(std::min<size_t>(bytes.size(), 0xff));
  return slot;
}

int32_t TokenIndex::find(std::string_view bytes) const {
  if (bytes.size() > longest_) {
    return -1;
  }
  const uint64_t hash = hash_bytes(bytes);
  const Slot wanted = make_slot(bytes, hash);
  for (size_t slot = hash & mask_; slots_[slot].id >= 0; slot = (slot + 1) & mask_) {
    if (slots_[slot].head == wanted.head && slots_[slot].tag == wanted.tag &&
        (bytes.size() <= sizeof(wanted.head) ||
         (*tokens_)[static_cast<size_t>(slots_[slot].id)] == bytes)) {
      return slots_[slot].id;
    }
  }
  return -1;
}

Bpe::Bpe(const TokenizerSpec& spec)
    : index_(spec.tokens),
      merges_(spec.merges.size()),
      pairs_(std::bit_ceil(spec.merges.size() * 2 + 16)),
      pair_mask_(pairs_.size() - 1),
      byte_ids_(256, -1),
      ignore_merges_(spec.ignore_merges),
      direct_(std::make_unique<std::atomic<uint8_t>[]>(spec.tokens.size())) {
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    byte_ids_[byte] = index_.find({&c, 1});
  }
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    add_merge(spec, rank);
  }
  byte_ranks_.resize(byte_ids_.size() * byte_ids_.size());
  for (size_t left = 0; left < byte_ids_.size(); ++left) {
    for (size_t right = 0; right < byte_ids_.size(); ++right) {
      byte_ranks_[left * byte_ids_.size() + right] = rank_of(byte_ids_[left], byte_ids_[right]);
    }
  }
  // Text must not spell a special token by being merged into it.
  for (const AddedToken& token : spec.added) {
    if (token.special && static_cast<size_t>(token.id) < spec.tokens.size()) {
      direct_[static_cast<size_t>(token.id)] = kNo;
    }
  }
}

void Bpe::add_merge(const TokenizerSpec& spec, size_t rank) {
  const auto [left, right] = spec.merges[rank];
  const auto size = static_cast<int32_t>(spec.tokens.size());
  if (left < 0 || left >= size || right < 0 || right >= size) {
    throw_error(ErrorCode::kCorruptData, "{}: merge {} has a part that is no token", spec.origin,
                rank);
  }
  const std::string& left_bytes = spec.tokens[static_cast<size_t>(left)];
  const std::string& right_bytes = spec.tokens[static_cast<size_t>(right)];
  const int32_t result = index_.find(left_bytes + right_bytes);
  if (result < 0 || left_bytes.empty() || right_bytes.empty()) {
    throw_error(ErrorCode::kCorruptData, "{}: merge {} ('{}' and '{}') gives no token", spec.origin,
                rank, shown_token(left_bytes), shown_token(right_bytes));
  }
  merges_[rank] = {left, right, result};
  PairSlot& slot = pair_slot(pair_of(left, right));
  slot.pair = pair_of(left, right);
  slot.rank = static_cast<int32_t>(rank);  // of equal pairs the last counts, as in HF
}

Bpe::PairSlot& Bpe::pair_slot(uint64_t pair) {
  size_t slot = mix(pair) & pair_mask_;
  while (pairs_[slot].pair != kNoPair && pairs_[slot].pair != pair) {
    slot = (slot + 1) & pair_mask_;
  }
  return pairs_[slot];
}

int32_t Bpe::rank_of(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  size_t slot = mix(pair) & pair_mask_;
  while (pairs_[slot].pair != kNoPair) {
    if (pairs_[slot].pair == pair) {
      return pairs_[slot].rank;
    }
    slot = (slot + 1) & pair_mask_;
  }
  return kNoRank;
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  const int32_t whole = index_.find(piece);
  if (whole < 0) {
    merge_bytes(piece, ids);
    return;
  }
  std::atomic<uint8_t>& direct = direct_[static_cast<size_t>(whole)];
  uint8_t state = direct.load(std::memory_order_relaxed);
  if (state == kUnknown && ignore_merges_) {
    state = kYes;
  }
  if (state == kYes) {
    ids.push_back(whole);
    return;
  }
  const size_t before = ids.size();
  merge_bytes(piece, ids);
  if (state == kUnknown) {
    const bool same = ids.size() == before + 1 && ids.back() == whole;
    direct.store(same ? kYes : kNo, std::memory_order_relaxed);
  }
}

void Bpe::merge_bytes(std::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.size() <= kShortPiece) {
    merge_short(piece, ids);
    return;
  }
  std::vector<int32_t> parts;
  parts.reserve(piece.size());
  for (const char c : piece) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) {
      parts.push_back(id);
    }
  }
  LongPiece work(std::move(parts));
  work.merge_all([this](int32_t left, int32_t right) -> RankedMerge {
    const int32_t rank = rank_of(left, right);
    return rank == kNoRank ? RankedMerge{}
                           : RankedMerge{rank, merges_[static_cast<size_t>(rank)].result};
  });
  work.append_to(ids);
}

void Bpe::merge_short(std::string_view piece, std::vector<int32_t>& out) const {
  std::array<uint8_t, kShortPiece> bytes{};  // that have a token
  std::array<int32_t, kShortPiece> ids{};
  std::array<int32_t, kShortPiece> ranks{};  // of the pair that starts here
  size_t count = 0;
  for (const char c : piece) {
    bytes[count] = static_cast<uint8_t>(c);
    ids[count] = byte_ids_[bytes[count]];
    count += ids[count] >= 0 ? 1 : 0;
  }
  for (size_t i = 0; i + 1 < count; ++i) {
    ranks[i] = byte_ranks_[bytes[i] * size_t{256} + bytes[i + 1]];
  }
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      best = ranks[i] < ranks[best] ? i : best;
    }
    if (ranks[best] == kNoRank) {
      break;
    }
    ids[best] = merges_[static_cast<size_t>(ranks[best])].result;
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      ids[i] = ids[i + 1];
      ranks[i] = ranks[i + 1];
    }
    if (best + 1 < count) {
      ranks[best] = rank_of(ids[best], ids[best + 1]);
    }
    if (best > 0) {
      ranks[best - 1] = rank_of(ids[best - 1], ids[best]);
    }
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace plait
