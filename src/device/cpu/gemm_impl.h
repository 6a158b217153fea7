// The implementations behind gemm.h. Each returns false, and touches nothing, when it does not
// support the arguments. All assume arguments that passed check_gemm_args().
#pragma once

#include "device/cpu/gemm.h"

namespace plait::cpu {

// The reference: any CPU, every element type, every shape.
bool gemm_plain(const GemmArgs& args, ThreadPool& pool);

}  // namespace plait::cpu
