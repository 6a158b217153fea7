// Walks the schedule of all stages and counts what a training step allocates and frees, in order.
// Internal to spec/: see memory_estimate.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "spec/memory_estimate.h"
#include "spec/schedule.h"

namespace plait {

enum class MemoryPart : uint8_t { kStates, kActivations, kWorkspace };
constexpr int kNumMemoryParts = 3;

// Current and peak bytes. Sums that do not fit 63 bits stay at the largest number.
class MemoryCount {
 public:
  void add(MemoryPart part, int64_t bytes);
  void free(MemoryPart part, int64_t bytes);
  // Allocated and freed again.
  void touch(MemoryPart part, int64_t bytes) {
    add(part, bytes);
    free(part, bytes);
  }
  int64_t peak(MemoryPart part) const { return peak_[static_cast<size_t>(part)]; }
  int64_t total_peak() const { return total_peak_; }

 private:
  std::array<int64_t, kNumMemoryParts> now_{}, peak_{};
  int64_t total_ = 0, total_peak_ = 0;
};

// What a sent message keeps alive.
enum class SendAssumption : uint8_t {
  kTakenAtOnce,  // the receiver already waited
  kTakenLate,    // until the sender has proof, through what it received, that it was taken
};

// One step, as Engine::forward_backward runs it, on every stage. `counts` holds one entry a stage,
// to which the states have been added.
void walk_step(const MemoryRequest& request, const std::vector<std::vector<Action>>& schedule,
               SendAssumption assumption, std::vector<MemoryCount>& counts);

}  // namespace plait
