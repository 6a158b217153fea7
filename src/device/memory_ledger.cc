#include "device/memory_ledger.h"

#include <algorithm>

#include "base/error.h"

namespace plait {

const char* memory_category_name(MemoryCategory category) {
  static constexpr std::array kNames = {"weights",  "gradients", "optimizer", "activations",
                                        "kv_cache", "comm",      "workspace"};
  static_assert(kNames.size() == kNumMemoryCategories);
  return kNames[static_cast<size_t>(category)];
}

void MemoryLedger::add(MemoryCategory category, int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto i = static_cast<size_t>(category);
  totals_.current_bytes[i] += bytes;
  CHECK_GE(totals_.current_bytes[i], 0);
  totals_.peak_bytes[i] = std::max(totals_.peak_bytes[i], totals_.current_bytes[i]);
  totals_.total_bytes += bytes;
  totals_.total_peak_bytes = std::max(totals_.total_peak_bytes, totals_.total_bytes);
}

MemoryLedger::Totals MemoryLedger::totals() const {
  const std::scoped_lock lock(mutex_);
  return totals_;
}

void MemoryLedger::reset_peaks() {
  const std::scoped_lock lock(mutex_);
  totals_.peak_bytes = totals_.current_bytes;
  totals_.total_peak_bytes = totals_.total_bytes;
}

}  // namespace plait
