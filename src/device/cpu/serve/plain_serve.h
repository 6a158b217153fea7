// The serving operators as simple loops for any CPU: the reference of the fast versions, which in
// f32 arithmetic must give the same products bit for bit. pack_weight and embedding_packed
// have no other version. Pointers are host addresses.
#pragma once

#include "base/thread_pool.h"
#include "device/serve_kernels.h"

namespace plait::cpu::serve::plain {

void pack_weight(const PackWeightArgs& args, ThreadPool& pool);
void matmul_packed(const MatmulPackedArgs& args, ThreadPool& pool);
void embedding_packed(const EmbeddingPackedArgs& args, ThreadPool& pool);
void norm_rows(const NormRowsArgs& args, ThreadPool& pool);
void prepare_qkv(const PrepareQkvArgs& args, ThreadPool& pool);
void paged_attention(const PagedAttentionArgs& args, ThreadPool& pool);
void row_argmax(const RowArgmaxArgs& args, ThreadPool& pool);

}  // namespace plait::cpu::serve::plain
