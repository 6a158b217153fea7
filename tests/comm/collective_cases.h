// Checks of every collective against expected values, for any transport: run inside run_ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "device/device.h"

namespace plait::test {

struct CollectiveCase {
  int64_t count = 0;
  DType dtype = DType::kF32;
  bool async = false;
};

// Each runs one collective over `group` and compares every element; a mismatch is a test failure
// (EXPECT) on the rank that sees it.
void check_all_reduce(ProcessGroup& group, Device& device, const CollectiveCase& c);
void check_all_reduce_max(ProcessGroup& group, Device& device, const CollectiveCase& c);
void check_reduce_scatter(ProcessGroup& group, Device& device, const CollectiveCase& c);
void check_all_gather(ProcessGroup& group, Device& device, const CollectiveCase& c);
void check_broadcast(ProcessGroup& group, Device& device, const CollectiveCase& c);
void check_all_to_all(ProcessGroup& group, Device& device, const CollectiveCase& c);
void check_gather_bytes(ProcessGroup& group);
// Every rank sends to every other rank before it receives.
void check_exchange(ProcessGroup& group, Device& device, const CollectiveCase& c);
// Asynchronous and blocking operations alternate; results are those of call order.
void check_mixed_order(ProcessGroup& group, Device& device);
// A reduction of values whose sum depends on the order of addition gives the bits of rank order.
void check_order_of_addition(ProcessGroup& group, Device& device);

// All of the above for sizes from 0 to 100000 (20000 with many ranks) and every dtype.
void check_everything(ProcessGroup& group, Device& device);

}  // namespace plait::test
