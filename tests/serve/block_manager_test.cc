#include "serve/block_manager.h"

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
std::vector<int32_t> fill(BlockManager& manager, const std::vector<int32_t>& tokens) {
  std::vector<int32_t> blocks = manager.match_prefix(tokens);
  const int64_t size = manager.block_tokens();
  while (static_cast<int64_t>(blocks.size()) < manager.blocks_for(std::ssize(tokens))) {
    blocks.push_back(manager.allocate());
  }
  for (int64_t i = 0; i < std::ssize(tokens) / size; ++i) {
    manager.enter(blocks, i, std::span(tokens).subspan(i * size, size));
  }
  return blocks;
}

TEST(BlockManager, FindsTheSameBeginning) {
  BlockManager manager({.num_blocks = 8, .block_tokens = 4});
  const std::vector<int32_t> tokens = count_up(0, 10);
  const std::vector<int32_t> blocks = fill(manager, tokens);
  EXPECT_EQ(blocks.size(), 3U);
  EXPECT_EQ(manager.num_free(), 5);
  const std::vector<int32_t> again = manager.match_prefix(tokens);
  EXPECT_EQ(again, (std::vector<int32_t>{blocks[0], blocks[1]}));
  manager.release(blocks);
  EXPECT_EQ(manager.num_free(), 6);
  manager.release(again);
  EXPECT_EQ(manager.num_free(), 8);
  EXPECT_EQ(manager.probe_prefix(tokens).tokens, 8);
  EXPECT_EQ(manager.probe_prefix(tokens).free_blocks, 2);
}

TEST(BlockManager, TheSameTokensAfterAnotherBeginningAreOtherBlocks) {
  BlockManager manager({.num_blocks = 8, .block_tokens = 2});
  std::vector<int32_t> a = {1, 2, 7, 8};
  std::vector<int32_t> b = {3, 4, 7, 8};
  fill(manager, a);
  EXPECT_EQ(manager.probe_prefix(b).tokens, 0);
  fill(manager, b);
  EXPECT_EQ(manager.probe_prefix(std::vector<int32_t>{3, 4, 7, 8, 9}).tokens, 4);
  EXPECT_EQ(manager.probe_prefix(std::vector<int32_t>{7, 8}).tokens, 0);
}

TEST(BlockManager, TakesTheLeastRecentlyUsedAndLastBlocksFirst) {
  BlockManager manager({.num_blocks = 4, .block_tokens = 2});
  const std::vector<int32_t> a = {1, 2, 3, 4};
  const std::vector<int32_t> b = {5, 6, 7, 8};
  manager.release(fill(manager, a));
  manager.release(fill(manager, b));
  EXPECT_GE(manager.allocate(), 0);
  EXPECT_EQ(manager.probe_prefix(a).tokens, 2);  // its second block went
  EXPECT_EQ(manager.probe_prefix(b).tokens, 4);
  manager.allocate();
  EXPECT_EQ(manager.probe_prefix(a).tokens, 0);
  EXPECT_EQ(manager.probe_prefix(b).tokens, 4);
  manager.allocate();
  manager.allocate();
  EXPECT_EQ(manager.allocate(), -1);
}

TEST(BlockManager, CopiesComputedSideBySideShareOneChain) {
  BlockManager manager({.num_blocks = 8, .block_tokens = 2});
  const std::vector<int32_t> tokens = {1, 2, 3, 4};
  std::vector<int32_t> a = {manager.allocate(), manager.allocate()};
  std::vector<int32_t> b = {manager.allocate(), manager.allocate()};
  manager.enter(a, 0, std::span(tokens).first(2));
  manager.enter(b, 0, std::span(tokens).first(2));
  manager.enter(b, 1, std::span(tokens).last(2));
  EXPECT_EQ(manager.match_prefix(tokens), (std::vector<int32_t>{a[0], b[1]}));
}

TEST(BlockManager, RandomUseKeepsTheBooks) {
  constexpr int64_t kBlocks = 12;
  BlockManager manager({.num_blocks = kBlocks, .block_tokens = 2});
  std::map<int, std::vector<int32_t>> held;
  for (uint64_t i = 0; i < 20000; ++i) {
    const auto pick = [i](uint64_t stream, uint64_t most) {
      return random_bits(7, stream, i) % most;
    };
    if (!held.empty() && pick(0, 2) == 0) {
      auto entry = std::next(held.begin(), static_cast<int64_t>(pick(1, held.size())));
      manager.release(entry->second);
      held.erase(entry);
    } else if (manager.num_free() >= 3) {
      std::vector<int32_t> tokens;
      for (uint64_t t = 0; t < 2 + pick(2, 5); ++t) {
        tokens.push_back(static_cast<int32_t>(random_bits(8, t, i) % 2));
      }
      held[static_cast<int>(i)] = fill(manager, tokens);
    }
    std::map<int32_t, int> used;
    for (const auto& [id, blocks] : held) {
      for (const int32_t block : blocks) {
        ASSERT_GE(block, 0);
        ++used[block];
      }
    }
    ASSERT_EQ(manager.num_free(), kBlocks - std::ssize(used));
  }
}

}  // namespace
}  // namespace plait
