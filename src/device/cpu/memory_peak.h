// The speed of memory, as the bound of what reads more than it computes.
#pragma once

#include "base/thread_pool.h"

namespace plait::cpu {

// Bytes a second that all threads of `pool` together read from a block far larger than any cache:
// the best of several passes, as one and as four prefetched sequences a thread. Takes about a
// second and 512 MiB. Provenance: measured.
double measure_read_bandwidth(ThreadPool& pool);

}  // namespace plait::cpu
