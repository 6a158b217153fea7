// Element-wise reduction over the ranks' buffers in host memory, in rank order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "comm/process_group.h"

namespace plait {

struct ReduceArgs {
  // One per rank, in rank order; count elements each, aligned for one element.
  std::span<const std::byte* const> sources;
  // Each receives the result. A destination may be one of the sources, element for element.
  std::span<std::byte* const> destinations;
  int64_t count = 0;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
};

// ((s0 + s1) + s2) + ..., in f32 for 16-bit types with one rounding at the end: the same bits on
// every instruction set, for any split into calls (of a NaN only that it is one). For kMax a NaN in
// any source gives NaN.
void reduce_in_order(const ReduceArgs& args);

namespace internal {
// The same, compiled for one instruction set. Only where cpu_info() has it.
void reduce_plain(const ReduceArgs& args);
void reduce_avx2(const ReduceArgs& args);
void reduce_avx512(const ReduceArgs& args);
}  // namespace internal

}  // namespace plait
