// A step of inference as a list of resolved operator calls: what is fused, in which order, and
// where every buffer lies. Only the number of rows changes from step to step.
#pragma once

#include <cstdint>
#include <variant>

#include "device/kernels.h"
#include "parallel/parallel_context.h"
#include "parallel/pipeline/stage_link.h"

namespace plait {

// Sums f32 [rows, cols] over the tp group.
struct SumRows {
  DevicePtr buffer;
  int64_t cols = 0;
};
// Hidden states f32 [rows, cols] from the stage before, or to the one behind.
struct ReceiveRows {
  DevicePtr buffer;
  int64_t cols = 0;
};
struct SendRows {
  DevicePtr buffer;
  int64_t cols = 0;
};
// x += delta, f32 [rows, cols].
struct AddRows {
  DevicePtr x, delta;
  int64_t cols = 0;
};

using DecoderOp =
    std::variant<EmbeddingPackedArgs, NormRowsArgs, MatmulPackedArgs, PrepareQkvArgs,
                 PagedAttentionArgs, SwigluForwardArgs, SumRows, ReceiveRows, SendRows, AddRows>;

struct StepSize {
  int64_t rows = 0;
  int64_t runs = 0;
  int64_t table_stride = 0;
};

// Runs one operator on `size`; the row counts in `op` itself are not looked at.
void run_decoder_op(const DecoderOp& op, const StepSize& size, const ParallelContext& context);

}  // namespace plait
