// The implementations behind gemm.h. Each returns false, and touches nothing, when it does not
// support the arguments. All assume arguments that passed check_gemm_args().
#pragma once

#include "device/cpu/gemm.h"

namespace plait::cpu {

// The reference: any CPU, every element type, every shape.
bool gemm_plain(const GemmArgs& args, ThreadPool& pool);

// Present when built with PLAIT_ONEDNN. f32 through sgemm, bf16 (on AVX512) through the matmul
// primitive; gemm_onednn_matmul takes f32 through the primitive too.
bool gemm_onednn_supports(const GemmArgs& args);
bool gemm_onednn(const GemmArgs& args, ThreadPool& pool);
bool gemm_onednn_matmul(const GemmArgs& args, ThreadPool& pool);

}  // namespace plait::cpu
