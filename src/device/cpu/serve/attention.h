// The driver of attention over the paged cache.
#pragma once

#include "base/thread_pool.h"
#include "device/cpu/serve/isa.h"
#include "device/serve_kernels.h"

namespace plait::cpu::serve {

void paged_attention_with(const IsaKernels& isa, const PagedAttentionArgs& args, ThreadPool& pool);

}  // namespace plait::cpu::serve
