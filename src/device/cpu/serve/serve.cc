#include "device/cpu/serve/serve.h"

#include "base/error.h"
#include "device/cpu/serve/attention.h"
#include "device/cpu/serve/isa.h"
#include "device/cpu/serve/matmul.h"
#include "device/cpu/serve/plain_serve.h"
#include "device/cpu/serve/rows_simd.h"

namespace plait::cpu::serve {
namespace {

bool is_served(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16;
}

void check_kv(const KvLayout& kv, int64_t heads) {
  CHECK(is_served(kv.dtype));
  CHECK_GE(kv.kv_heads, 1);
  CHECK_GE(kv.head_dim, 2);
  CHECK_LE(kv.head_dim, 256);
  CHECK_EQ(kv.head_dim % 2, 0);
  CHECK_EQ(heads % kv.kv_heads, 0);
}

}  // namespace

void pack_weight(const PackWeightArgs& args, ThreadPool& pool) {
  CHECK_GE(args.row_begin, 0);
  CHECK_LE(args.row_begin + args.rows, args.weight.n);
  CHECK_GE(args.source_stride, args.weight.k);
  plain::pack_weight(args, pool);
}

void matmul_packed(const MatmulPackedArgs& args, ThreadPool& pool) {
  CHECK(is_served(args.a_dtype));
  CHECK(is_served(args.c_dtype));
  CHECK_GE(args.a_stride, args.weight.k);
  CHECK_GE(args.c_stride, args.weight.n);
  if (args.m == 0 || args.weight.n == 0) {
    return;
  }
  if (isa() == nullptr || args.weight.k == 0) {
    plain::matmul_packed(args, pool);
  } else {
    matmul_packed_with(*isa(), args, pool);
  }
}

void embedding_packed(const EmbeddingPackedArgs& args, ThreadPool& pool) {
  CHECK(is_served(args.out_dtype));
  plain::embedding_packed(args, pool);
}

void norm_rows(const NormRowsArgs& args, ThreadPool& pool) {
  CHECK(is_served(args.x_dtype));
  CHECK(is_served(args.y_dtype));
  if (isa() == nullptr) {
    plain::norm_rows(args, pool);
  } else {
    fast::norm_rows(args, pool);
  }
}

void prepare_qkv(const PrepareQkvArgs& args, ThreadPool& pool) {
  CHECK(is_served(args.dtype));
  check_kv(args.kv, args.heads);
  if (isa() == nullptr) {
    plain::prepare_qkv(args, pool);
  } else {
    fast::prepare_qkv(args, pool);
  }
}

void paged_attention(const PagedAttentionArgs& args, ThreadPool& pool) {
  CHECK(is_served(args.dtype));
  check_kv(args.kv, args.heads);
  if (isa() == nullptr) {
    plain::paged_attention(args, pool);
  } else {
    paged_attention_with(*isa(), args, pool);
  }
}

void row_argmax(const RowArgmaxArgs& args, ThreadPool& pool) {
  CHECK(is_served(args.dtype));
  CHECK_GE(args.cols, 1);
  if (isa() == nullptr) {
    plain::row_argmax(args, pool);
  } else {
    fast::row_argmax(args, pool);
  }
}

}  // namespace plait::cpu::serve
