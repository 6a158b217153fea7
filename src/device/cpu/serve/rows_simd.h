// The serving operators on rows with SIMD instructions chosen at run time (Highway). Pointers are
// host addresses.
#pragma once

#include "base/thread_pool.h"
#include "device/serve_kernels.h"

namespace plait::cpu::fast {

void norm_rows(const NormRowsArgs& args, ThreadPool& pool);
void prepare_qkv(const PrepareQkvArgs& args, ThreadPool& pool);
void row_argmax(const RowArgmaxArgs& args, ThreadPool& pool);

}  // namespace plait::cpu::fast
