#include "plan/stack_rules.h"

namespace plait {
namespace {

// The size of one NCCL communicator's buffers on a device; assumed.
constexpr double kNcclBytes = 100e6;
constexpr double kHcclBytes = 200.0 * 1024 * 1024;

SplitBytes split_bytes(double bytes, bool sharded) {
  return {sharded ? 0 : bytes, sharded ? bytes : 0};
}

StateBytes megatron_states(const TrainJob& job) {
  const bool sharded = job.layout.zero >= 1;
  StateBytes s;
  switch (job.dtype) {
    case DType::kF32:
      s.weights.whole = s.gradients.whole = 4;
      s.optimizer = split_bytes(8, sharded);
      break;
    case DType::kF16:
      // 16-bit gradients; the f32 copy of the rank's own part counts as optimizer.
      s.weights.whole = s.gradients.whole = 2;
      s.optimizer = split_bytes(16, sharded);
      break;
    default:
      s.weights.whole = 2;
      s.gradients.whole = 4;
      s.optimizer = split_bytes(12, sharded);
      if (job.reuse_fp32_param) {
        // The bf16 copy is the upper half of the f32 master; with shards, only of the rank's own.
        (sharded ? s.optimizer.sharded : s.weights.whole) -= 2;
      }
      break;
  }
  return s;
}

StateBytes deepspeed_states(const TrainJob& job) {
  StateBytes s;
  const double e = job.dtype == DType::kF32 ? 4 : 2;
  const double optimizer = job.dtype == DType::kF32 ? 8 : 12;
  const int zero = job.layout.zero;
  s.weights = split_bytes(e, zero >= 3);
  s.gradients = split_bytes(e, zero >= 2);
  s.optimizer = split_bytes(optimizer, zero >= 1);
  return s;
}

StateBytes mindformers_states(const TrainJob& job) {
  StateBytes s;
  s.weights.whole = s.gradients.whole = job.params_16bit ? 2 : 4;
  s.optimizer = split_bytes(8, job.layout.zero >= 1);
  return s;
}

StateBytes states_of(const TrainJob& job) {
  switch (job.stack) {
    case Stack::kDeepSpeed:
      return deepspeed_states(job);
    case Stack::kMindFormers:
      return mindformers_states(job);
    default:
      return megatron_states(job);
  }
}

}  // namespace

StateBytes state_bytes(const TrainJob& job) {
  StateBytes s = states_of(job);
  if (job.stack != Stack::kDeepSpeed && job.layout.zero >= 2) {
    s.gradients = {0, s.gradients.whole + s.gradients.sharded};
    if (job.layout.zero >= 3) {
      s.weights = {0, s.weights.whole + s.weights.sharded};
    }
  }
  if (job.grad_bytes > 0) {
    const auto bytes = static_cast<double>(job.grad_bytes);
    s.gradients = {s.gradients.whole > 0 ? bytes : 0, s.gradients.sharded > 0 ? bytes : 0};
  }
  return s;
}

double late_state_share(const TrainJob& job) {
  if (job.stack == Stack::kMindFormers) {
    return 1;
  }
  switch (job.dtype) {
    case DType::kF32:
      return 1;
    case DType::kF16:
      return 12.0 / 16.0;
    default:
      return job.reuse_fp32_param && job.layout.zero >= 1 ? 8.0 / 10.0 : 8.0 / 12.0;
  }
}

double communicator_bytes(const TrainJob& job) {
  if (job.comm_buffer_bytes > 0) {
    return 2 * static_cast<double>(job.comm_buffer_bytes);
  }
  return runs_on_ascend(job.stack) ? 2 * kHcclBytes : kNcclBytes;
}

}  // namespace plait
