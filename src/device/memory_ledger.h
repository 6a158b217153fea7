// Who holds how much device memory, now and at the peak, by category.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace plait {

enum class MemoryCategory : uint8_t {
  kWeights,  // compute-precision parameters
  kGradients,
  kOptimizer,    // f32 masters and moments
  kActivations,  // tensors saved by forward for backward
  kKvCache,
  kComm,       // staging buffers of collectives and p2p
  kWorkspace,  // everything that lives within one operator or one layer call
};
constexpr int kNumMemoryCategories = 7;

// "weights", "gradients", "optimizer", "activations", "kv_cache", "comm", "workspace".
const char* memory_category_name(MemoryCategory category);

// Counts bytes as requested (not as rounded by an allocator). Thread-safe.
class MemoryLedger {
 public:
  struct Totals {
    std::array<int64_t, kNumMemoryCategories> current_bytes{};
    std::array<int64_t, kNumMemoryCategories> peak_bytes{};
    int64_t total_bytes = 0;
    int64_t total_peak_bytes = 0;  // peak of the sum, not the sum of the peaks
  };

  void add(MemoryCategory category, int64_t bytes);  // bytes < 0 frees
  Totals totals() const;
  void reset_peaks();

 private:
  mutable std::mutex mutex_;
  Totals totals_;
};

}  // namespace plait
