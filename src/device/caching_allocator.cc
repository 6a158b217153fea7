#include "device/caching_allocator.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace plait {
namespace {

constexpr int64_t kMinBlockBytes = 64;
constexpr int64_t kFineBytes = 4096;  // classes are powers of two up to here
constexpr int64_t kSlabBytes = int64_t{1} << 18;
constexpr int64_t kSlabLimit = int64_t{1} << 15;  // smaller blocks come from slabs

}  // namespace

int64_t CachingAllocator::round_up(int64_t bytes) {
  const auto size = static_cast<uint64_t>(std::max(bytes, kMinBlockBytes));
  if (bytes <= kFineBytes) {
    return static_cast<int64_t>(std::bit_ceil(size));
  }
  const uint64_t step = std::bit_floor(size - 1) / 8;
  return static_cast<int64_t>((size + step - 1) / step * step);
}

CachingAllocator::~CachingAllocator() {
  CHECK_EQ(used_blocks_, 0);
  release_cached();
  for (std::byte* slab : slabs_) {
    source_.release(slab, kSlabBytes);
  }
}

std::byte* CachingAllocator::allocate(int64_t bytes) {
  CHECK_GE(bytes, 0);
  const int64_t rounded = round_up(bytes);
  const std::scoped_lock lock(mutex_);
  std::byte* block = take_cached(rounded);
  if (block == nullptr && rounded < kSlabLimit) {
    block = carve_small(rounded);
  } else if (block == nullptr) {
    block = source_.acquire(rounded);
    if (block == nullptr) {
      release_cached();
      block = source_.acquire(rounded);
    }
    held_bytes_ += block != nullptr ? rounded : 0;
  }
  if (block == nullptr) {
    throw_error(
        ErrorCode::kResourceExhausted,
        "out of device memory: {} bytes asked for, {} held ({} of them free in other sizes), "
        "about {} left to take. Use a smaller micro batch, more recomputation, or a layout "
        "that splits the model over more ranks.",
        bytes, held_bytes_, cached_bytes_, source_.available_bytes());
  }
  ++used_blocks_;
  return block;
}

void CachingAllocator::deallocate(std::byte* block, int64_t bytes) noexcept {
  const int64_t rounded = round_up(bytes);
  const std::scoped_lock lock(mutex_);
  free_[rounded].push_back(block);
  cached_bytes_ += rounded;
  --used_blocks_;
}

int64_t CachingAllocator::held_bytes() const {
  const std::scoped_lock lock(mutex_);
  return held_bytes_;
}

int64_t CachingAllocator::cached_bytes() const {
  const std::scoped_lock lock(mutex_);
  return cached_bytes_;
}

std::byte* CachingAllocator::take_cached(int64_t rounded) {
  const auto found = free_.find(rounded);
  if (found == free_.end() || found->second.empty()) {
    return nullptr;
  }
  std::byte* block = found->second.back();
  found->second.pop_back();
  cached_bytes_ -= rounded;
  return block;
}

std::byte* CachingAllocator::carve_small(int64_t rounded) {
  if (slab_left_ < rounded) {
    std::byte* slab = source_.acquire(kSlabBytes);
    if (slab == nullptr) {
      return nullptr;
    }
    slabs_.push_back(slab);
    slab_next_ = slab;
    slab_left_ = kSlabBytes;
    held_bytes_ += kSlabBytes;
  }
  std::byte* block = slab_next_;
  slab_next_ += rounded;
  slab_left_ -= rounded;
  return block;
}

void CachingAllocator::release_cached() noexcept {
  for (auto entry = free_.lower_bound(kSlabLimit); entry != free_.end(); ++entry) {
    for (std::byte* block : entry->second) {
      source_.release(block, entry->first);
      held_bytes_ -= entry->first;
      cached_bytes_ -= entry->first;
    }
    entry->second.clear();
  }
}

}  // namespace plait
