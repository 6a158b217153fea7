// What each training stack keeps per parameter and per communicator.
#pragma once

#include "plan/job.h"

namespace plait {

// Bytes per parameter: `whole` on every rank, `sharded` divided over the ranks that share the
// optimizer.
struct SplitBytes {
  double whole = 0;
  double sharded = 0;
};

struct StateBytes {
  SplitBytes weights, gradients, optimizer;
};

// Megatron (docs/user-guide/features/dist_optimizer.md): bf16 18, or 6 + 12/D with a distributed
// optimizer; fp16 20, or 4 + 16/D; f32 16, or 8 + 8/D. MindSpeed's reuse_fp32_param drops the bf16
// copy. DeepSpeed (Rajbhandari et al. 2020, section 5): 16 with 16-bit gradients; ZeRO 1, 2, 3
// shard optimizer, gradients, weights. MindFormers (mindformers/core/optim/adamw.py): weights and
// gradients in param_init_type, f32 moments and no master copy: f32 8 + 8/D, 16 bits 4 + 8/D.
StateBytes state_bytes(const TrainJob& job);

// Share of the optimizer bytes that the first step allocates at its end: the moments (and fp16's
// f32 gradient shard). Megatron reports memory after that step, so its reported peak is the larger
// of the first backward without them and of the finished states.
double late_state_share(const TrainJob& job);

// AdamW's f32 temporary of one parameter, bytes per element.
constexpr double kOptimizerTemporaryBytes = 4;

// Device memory of one communicator: HCCL takes two buffers of HCCL_BUFFSIZE (200 MB unless set;
// ascend.md 2.4); NCCL's are assumed.
double communicator_bytes(const TrainJob& job);

}  // namespace plait
