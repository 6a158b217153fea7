// Resharding arithmetic against element-by-element copies.
#include "checkpoint/reshard.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace plait {
namespace {

int64_t pick(uint64_t* state, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random_bits(1, 2, (*state)++) %
                                    static_cast<uint64_t>(high - low + 1));
}

// A random rectangle of a 9 x 7 matrix; whole rows or whole columns often.
Shard random_shard(uint64_t* state) {
  constexpr int64_t kRows = 9;
  constexpr int64_t kCols = 7;
  Shard shard;
  shard.row_begin = pick(state, 0, kRows - 1);
  shard.rows = pick(state, 1, kRows - shard.row_begin);
  if (pick(state, 0, 1) == 0) {
    shard.cols = kCols;
  } else {
    shard.col_begin = pick(state, 0, kCols - 1);
    shard.cols = pick(state, 1, kCols - shard.col_begin);
  }
  return shard;
}

TEST(Reshard, CopiesWhatTwoShardsShare) {
  uint64_t state = 0;
  for (int round = 0; round < 3000; ++round) {
    const Shard source = random_shard(&state);
    const Shard target = random_shard(&state);
    const int64_t begin = pick(&state, 0, source.count() - 1);
    const int64_t end = pick(&state, begin + 1, source.count());
    std::vector<float> data;
    std::vector<float> expected(static_cast<size_t>(target.count()), -1.0F);
    int64_t shared = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = source.row_begin + i / source.cols;
      const int64_t col = source.col_begin + i % source.cols;
      data.push_back(static_cast<float>(row * 100 + col));
      const int64_t r = row - target.row_begin;
      const int64_t c = col - target.col_begin;
      if (r >= 0 && r < target.rows && c >= 0 && c < target.cols) {
        expected[static_cast<size_t>(r * target.cols + c)] = data.back();
        ++shared;
      }
    }
    const ShardPart part{source, begin, end};
    std::vector<float> out(expected.size(), -1.0F);
    EXPECT_EQ(count_overlap(part, target), shared);
    EXPECT_EQ(copy_overlap(part, std::as_bytes(std::span(data)), target, out), shared);
    EXPECT_EQ(out, expected);
  }
}

TEST(Reshard, CoveringRowsHoldThePart) {
  uint64_t state = 77;
  for (int round = 0; round < 1000; ++round) {
    const Shard shard = random_shard(&state);
    const int64_t begin = pick(&state, 0, shard.count() - 1);
    const int64_t end = pick(&state, begin + 1, shard.count());
    const RowCover cover = covering_rows({shard, begin, end});
    EXPECT_EQ((cover.shard.row_begin - shard.row_begin) * shard.cols + cover.skip, begin);
    EXPECT_LT(cover.skip, shard.cols);
    EXPECT_GE(cover.shard.count(), cover.skip + end - begin);
    EXPECT_LT(cover.shard.count() - shard.cols, cover.skip + end - begin);
  }
}

}  // namespace
}  // namespace plait
