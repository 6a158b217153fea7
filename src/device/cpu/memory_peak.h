// The speed of memory, as the bound of what reads more than it computes.
#pragma once

#include "base/thread_pool.h"

namespace plait::cpu {

// Bytes a second that all threads of `pool` together read from a block far larger than any cache,
// as one or as four prefetched sequences a thread, whichever this memory likes better. The mean of
// several passes is what to set beside the mean speed of other work; the best beside its best.
struct ReadBandwidth {
  double best = 0, mean = 0;
};

// Takes about a second and 512 MiB. Provenance: measured.
ReadBandwidth measure_read_bandwidth(ThreadPool& pool);

}  // namespace plait::cpu
