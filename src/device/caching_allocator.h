// Free lists over blocks of memory, so that a training step takes no memory from the system once
// the first one has run. Shared by backends whose memory comes from the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace plait {

// Where a CachingAllocator takes its blocks from. Called under the allocator's lock.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  // 64-byte aligned block, or nullptr when there is no more.
  virtual std::byte* acquire(int64_t bytes) = 0;
  // Gives a block of acquire() back to the system.
  virtual void release(std::byte* block, int64_t bytes) noexcept = 0;
  // Bytes that acquire() could still hand out; an estimate, for error messages.
  virtual int64_t available_bytes() const = 0;
};

// Rounds sizes up to classes (powers of two from 64 bytes to 4 KiB, then eight classes per power of
// two: at most 1/8 is lost) and keeps freed blocks by class. Thread-safe.
class CachingAllocator {
 public:
  explicit CachingAllocator(BlockSource& source) : source_(source) {}
  // Releases everything. Every block must have been deallocated.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Uninitialised, 64-byte aligned; never null, also for 0 bytes. When the source has no more,
  // cached blocks are released and it is asked again. Errors: kResourceExhausted.
  std::byte* allocate(int64_t bytes);
  // `bytes` as given to allocate().
  void deallocate(std::byte* block, int64_t bytes) noexcept;

  // Bytes taken from the source, and the part of them that is free.
  int64_t held_bytes() const;
  int64_t cached_bytes() const;

  // The class that a request falls into.
  static int64_t round_up(int64_t bytes);

 private:
  std::byte* take_cached(int64_t rounded);
  std::byte* carve_small(int64_t rounded);
  void release_cached() noexcept;

  BlockSource& source_;
  mutable std::mutex mutex_;
  std::map<int64_t, std::vector<std::byte*>> free_;  // by class
  // Blocks below kSlabLimit are cut from slabs, which are only released at the end.
  std::vector<std::byte*> slabs_;
  std::byte* slab_next_ = nullptr;
  int64_t slab_left_ = 0;
  int64_t held_bytes_ = 0;
  int64_t cached_bytes_ = 0;
  int64_t used_blocks_ = 0;
};

}  // namespace plait
