#include "serve/block_pool.h"

#include <map>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace plait {
namespace {

std::vector<int32_t> count_up(int32_t from, int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(from + static_cast<int32_t>(i));
  }
  return tokens;
}

// Allocates and enters all full blocks of `tokens`.
std::vector<int32_t> fill(BlockPool& pool, const std::vector<int32_t>& tokens) {
  std::vector<int32_t> blocks = pool.match_prefix(tokens);
  const int64_t size = pool.block_tokens();
  while (static_cast<int64_t>(blocks.size()) < pool.blocks_for(std::ssize(tokens))) {
    blocks.push_back(pool.allocate());
  }
  for (int64_t i = 0; i < std::ssize(tokens) / size; ++i) {
    pool.enter(blocks, i, std::span(tokens).subspan(i * size, size));
  }
  return blocks;
}

TEST(BlockPool, FindsTheSameBeginning) {
  BlockPool pool({.num_blocks = 8, .block_tokens = 4});
  const std::vector<int32_t> tokens = count_up(0, 10);
  const std::vector<int32_t> blocks = fill(pool, tokens);
  EXPECT_EQ(blocks.size(), 3U);
  EXPECT_EQ(pool.num_free(), 5);
  const std::vector<int32_t> again = pool.match_prefix(tokens);
  EXPECT_EQ(again, (std::vector<int32_t>{blocks[0], blocks[1]}));
  pool.release(blocks);
  EXPECT_EQ(pool.num_free(), 6);
  pool.release(again);
  EXPECT_EQ(pool.num_free(), 8);
  EXPECT_EQ(pool.probe_prefix(tokens).tokens, 8);
  EXPECT_EQ(pool.probe_prefix(tokens).free_blocks, 2);
}

TEST(BlockPool, TheSameTokensAfterAnotherBeginningAreOtherBlocks) {
  BlockPool pool({.num_blocks = 8, .block_tokens = 2});
  std::vector<int32_t> a = {1, 2, 7, 8};
  std::vector<int32_t> b = {3, 4, 7, 8};
  fill(pool, a);
  EXPECT_EQ(pool.probe_prefix(b).tokens, 0);
  fill(pool, b);
  EXPECT_EQ(pool.probe_prefix(std::vector<int32_t>{3, 4, 7, 8, 9}).tokens, 4);
  EXPECT_EQ(pool.probe_prefix(std::vector<int32_t>{7, 8}).tokens, 0);
}

TEST(BlockPool, TakesTheLeastRecentlyUsedAndLastBlocksFirst) {
  BlockPool pool({.num_blocks = 4, .block_tokens = 2});
  const std::vector<int32_t> a = {1, 2, 3, 4};
  const std::vector<int32_t> b = {5, 6, 7, 8};
  pool.release(fill(pool, a));
  pool.release(fill(pool, b));
  EXPECT_GE(pool.allocate(), 0);
  EXPECT_EQ(pool.probe_prefix(a).tokens, 2);  // its second block went
  EXPECT_EQ(pool.probe_prefix(b).tokens, 4);
  pool.allocate();
  EXPECT_EQ(pool.probe_prefix(a).tokens, 0);
  EXPECT_EQ(pool.probe_prefix(b).tokens, 4);
  pool.allocate();
  pool.allocate();
  EXPECT_EQ(pool.allocate(), -1);
}

TEST(BlockPool, CopiesComputedSideBySideShareOneChain) {
  BlockPool pool({.num_blocks = 8, .block_tokens = 2});
  const std::vector<int32_t> tokens = {1, 2, 3, 4};
  std::vector<int32_t> a = {pool.allocate(), pool.allocate()};
  std::vector<int32_t> b = {pool.allocate(), pool.allocate()};
  pool.enter(a, 0, std::span(tokens).first(2));
  pool.enter(b, 0, std::span(tokens).first(2));
  pool.enter(b, 1, std::span(tokens).last(2));
  EXPECT_EQ(pool.match_prefix(tokens), (std::vector<int32_t>{a[0], b[1]}));
}

TEST(BlockPool, RandomUseKeepsTheBooks) {
  constexpr int64_t kBlocks = 12;
  BlockPool pool({.num_blocks = kBlocks, .block_tokens = 2});
  std::map<int, std::vector<int32_t>> held;
  for (uint64_t i = 0; i < 20000; ++i) {
    const auto pick = [i](uint64_t stream, uint64_t most) {
      return random_bits(7, stream, i) % most;
    };
    if (!held.empty() && pick(0, 2) == 0) {
      auto entry = std::next(held.begin(), static_cast<int64_t>(pick(1, held.size())));
      pool.release(entry->second);
      held.erase(entry);
    } else if (pool.num_free() >= 3) {
      std::vector<int32_t> tokens;
      for (uint64_t t = 0; t < 2 + pick(2, 5); ++t) {
        tokens.push_back(static_cast<int32_t>(random_bits(8, t, i) % 2));
      }
      held[static_cast<int>(i)] = fill(pool, tokens);
    }
    std::map<int32_t, int> used;
    for (const auto& [id, blocks] : held) {
      for (const int32_t block : blocks) {
        ASSERT_GE(block, 0);
        ++used[block];
      }
    }
    ASSERT_EQ(pool.num_free(), kBlocks - std::ssize(used));
  }
}

}  // namespace
}  // namespace plait
