// The driver of products with packed weights: prepares `a`, cuts the work, and calls the product of
// an instruction set.
#pragma once

#include "base/thread_pool.h"
#include "device/cpu/serve/isa.h"
#include "device/serve_kernels.h"

namespace plait::cpu::serve {

void matmul_packed_with(const IsaKernels& isa, const MatmulPackedArgs& args, ThreadPool& pool);

}  // namespace plait::cpu::serve
