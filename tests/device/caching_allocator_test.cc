#include "device/caching_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/rng.h"

namespace plait {
namespace {

// Counts what is taken, up to a limit.
class CountingSource final : public BlockSource {
 public:
  explicit CountingSource(int64_t limit) : limit_(limit) {}
  std::byte* acquire(int64_t bytes) override {
    if (taken_ + bytes > limit_) {
      return nullptr;
    }
    taken_ += bytes;
    ++acquisitions_;
    return static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(bytes)));
  }
  void release(std::byte* block, int64_t bytes) noexcept override {
    taken_ -= bytes;
    std::free(block);
  }
  int64_t available_bytes() const override { return limit_ - taken_; }
  int64_t taken() const { return taken_; }
  int64_t acquisitions() const { return acquisitions_; }

 private:
  int64_t limit_;
  int64_t taken_ = 0;
  int64_t acquisitions_ = 0;
};

TEST(CachingAllocatorTest, ClassesHoldTheRequestAndWasteLittle) {
  for (int64_t bytes = 0; bytes < 100000; bytes = bytes * 9 / 8 + 1) {
    const int64_t rounded = CachingAllocator::round_up(bytes);
    EXPECT_GE(rounded, bytes);
    EXPECT_EQ(rounded % 64, 0) << bytes;
    EXPECT_EQ(CachingAllocator::round_up(rounded), rounded);
    if (bytes > 4096) {
      EXPECT_LE(rounded, bytes + bytes / 8 + 1) << bytes;
    }
  }
  EXPECT_EQ(CachingAllocator::round_up(4097), 4608);
  EXPECT_EQ(CachingAllocator::round_up(int64_t{1} << 30), int64_t{1} << 30);
}

TEST(CachingAllocatorTest, ASecondRoundTakesNothingFromTheSource) {
  CountingSource source(int64_t{1} << 30);
  CachingAllocator allocator(source);
  int64_t after_first = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::pair<std::byte*, int64_t>> blocks;
    for (uint64_t i = 0; i < 200; ++i) {
      const auto bytes = static_cast<int64_t>(random_bits(5, 0, i) % 300000);
      blocks.emplace_back(allocator.allocate(bytes), bytes);
      std::fill_n(blocks.back().first, bytes, std::byte{1});
    }
    for (const auto& [block, bytes] : blocks) {
      allocator.deallocate(block, bytes);
    }
    if (round == 0) {
      after_first = source.acquisitions();
    }
  }
  EXPECT_EQ(source.acquisitions(), after_first);
  EXPECT_EQ(allocator.held_bytes(), source.taken());
}

TEST(CachingAllocatorTest, LiveBlocksDoNotOverlap) {
  CountingSource source(int64_t{1} << 30);
  CachingAllocator allocator(source);
  std::vector<std::pair<std::byte*, int64_t>> blocks;
  for (uint64_t i = 0; i < 2000; ++i) {
    const auto bytes = static_cast<int64_t>(random_bits(6, 0, i) % 5000);
    blocks.emplace_back(allocator.allocate(bytes), bytes);
  }
  std::sort(blocks.begin(), blocks.end());
  for (size_t i = 1; i < blocks.size(); ++i) {
    EXPECT_GE(blocks[i].first, blocks[i - 1].first + std::max<int64_t>(blocks[i - 1].second, 1));
  }
  for (const auto& [block, bytes] : blocks) {
    allocator.deallocate(block, bytes);
  }
}

TEST(CachingAllocatorTest, ReleasesCachedBlocksBeforeItFails) {
  CountingSource source(1 << 20);
  CachingAllocator allocator(source);
  allocator.deallocate(allocator.allocate(600 << 10), 600 << 10);
  EXPECT_GT(allocator.cached_bytes(), 0);
  std::byte* block = allocator.allocate(800 << 10);
  EXPECT_EQ(allocator.cached_bytes(), 0);
  try {
    allocator.allocate(500 << 10);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_NE(error.message().find("512000 bytes"), std::string::npos) << error.message();
  }
  allocator.deallocate(block, 800 << 10);
}

TEST(CachingAllocatorTest, ThreadsMayShareIt) {
  CountingSource source(int64_t{1} << 30);
  CachingAllocator allocator(source);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        std::byte* block = allocator.allocate(100 + t);
        block[0] = std::byte{1};
        allocator.deallocate(block, 100 + t);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(allocator.held_bytes(), int64_t{1} << 18);
}

}  // namespace
}  // namespace plait
