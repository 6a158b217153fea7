#include "device/cpu/serve/matmul.h"

#include <algorithm>

#include "base/round_up.h"
#include "device/cpu/fast/scratch.h"
#include "device/cpu/fast/tasks.h"
#include "device/cpu/serve/layout.h"

namespace plait::cpu::serve {
namespace {

// Up to this many elements of `a` stay in the second-level cache: whole panels of weights, each
// read once.
constexpr int64_t kFewElements = 96 * 1024;
// Beyond, blocks of rows and depths that the third level delivers fast enough.
constexpr int64_t kBlockRows = 264;
constexpr int64_t kBlockDepth = 1024;
static_assert(kBlockDepth % kInt8Group == 0);
constexpr int64_t kBlockPanels = 8;
// Weights of a task: many, as what a thread fetches ahead is the next panels of its own task.
constexpr int64_t kTaskBytes = int64_t{1} << 20;
constexpr int64_t kLeastTaskPanels = 8;
// Elements of `a` that are worth waking a thread for.
constexpr int64_t kGrain = int64_t{1} << 15;

// One product: what is the same for all its tasks.
struct Product {
  const IsaKernels& isa;
  const MatmulPackedArgs& args;
  Arithmetic arithmetic;
  int64_t depth;      // padded
  int64_t row_bytes;  // of `a` as it is read
  const char* a;
  const float* a_scales;
};

Arithmetic arithmetic_of(const IsaKernels& isa, const MatmulPackedArgs& args) {
  switch (args.weight.format) {
    case WeightFormat::kF32:
      return Arithmetic::kF32;
    case WeightFormat::kBF16:
      return isa.bf16_pairs && args.a_dtype == DType::kBF16 ? Arithmetic::kBf16Pairs
                                                            : Arithmetic::kBf16;
    case WeightFormat::kInt8:
      return Arithmetic::kInt8;
  }
  return Arithmetic::kF32;
}

// Bytes of the first `depth` elements of a row of `a` as it is read.
int64_t row_bytes_of(Arithmetic arithmetic, int64_t depth) {
  switch (arithmetic) {
    case Arithmetic::kInt8:
      return depth / kInt8Group * kInt8RowGroupBytes;
    case Arithmetic::kBf16Pairs:
      return depth * 2;
    default:
      return depth * 4;
  }
}

// Columns and rows of one task; the rest of the block is the product's.
ProductBlock block_of(const Product& product, int64_t row, int64_t rows, int64_t panel) {
  const MatmulPackedArgs& args = product.args;
  ProductBlock block;
  block.arithmetic = product.arithmetic;
  block.a = product.a + row * product.row_bytes;
  block.a_stride = product.row_bytes;
  block.m = rows;
  block.panel_stride = panel_bytes(args.weight);
  block.panels = args.packed.as<char>() + panel * block.panel_stride;
  const int64_t col = panel * kPanel;
  block.c = args.c.as<char>() + (row * args.c_stride + col) * dtype_size(args.c_dtype);
  block.c_stride = args.c_stride;
  block.n = args.weight.n - col;
  block.c_dtype = args.c_dtype;
  block.add_c = args.accumulate;
  block.bias = args.bias ? args.bias.as<float>() + col : nullptr;
  block.a_scales = product.a_scales == nullptr ? nullptr : product.a_scales + row;
  return block;
}

int64_t steps_of(const Product& product, int64_t depth) {
  return product.arithmetic == Arithmetic::kF32 ? depth : depth / 2;
}

void multiply_few_rows(const Product& product, ThreadPool& pool) {
  const PackedWeight& weight = product.args.weight;
  const int64_t panels = divide_up(weight.n, kPanel);
  const int64_t tasks =
      round_up(divide_up(panels * panel_bytes(weight), kTaskBytes), pool.num_threads());
  const int64_t each = round_up(std::max(kLeastTaskPanels, divide_up(panels, tasks)), 4);
  fast::parallel_tasks(pool, divide_up(panels, each), [&](int64_t task) {
    ProductBlock block = block_of(product, 0, product.args.m, task * each);
    block.panel_count = std::min(each, panels - task * each);
    block.steps = steps_of(product, product.depth);
    product.isa.product(block);
  });
}

// One block of rows with kBlockPanels panels, depth by depth.
void multiply_block(const Product& product, int64_t row, int64_t rows, int64_t panel) {
  const PackedWeight& weight = product.args.weight;
  ProductBlock block = block_of(product, row, rows, panel);
  block.panel_count = std::min(kBlockPanels, divide_up(weight.n, kPanel) - panel);
  block.partial = fast::thread_scratch().floats(rows * kBlockPanels * kPanel);
  block.partial_stride = kBlockPanels * kPanel;
  const int64_t depth_bytes = panel_bytes(weight) / product.depth;
  const char* a = block.a;
  const char* panels = block.panels;
  for (int64_t depth = 0; depth < product.depth; depth += kBlockDepth) {
    const int64_t count = std::min(kBlockDepth, product.depth - depth);
    block.a = a + row_bytes_of(product.arithmetic, depth);
    block.panels = panels + depth * depth_bytes;
    block.steps = steps_of(product, count);
    block.first = depth == 0;
    block.last = depth + count == product.depth;
    product.isa.product(block);
  }
}

void multiply_many_rows(const Product& product, ThreadPool& pool) {
  const int64_t m = product.args.m;
  const int64_t tile = product.isa.tile_rows;
  const int64_t row_blocks = divide_up(m, kBlockRows / tile * tile);
  const int64_t rows = round_up(divide_up(m, row_blocks), tile);
  const int64_t groups = divide_up(divide_up(product.args.weight.n, kPanel), kBlockPanels);
  fast::parallel_tasks(pool, row_blocks * groups, [&](int64_t task) {
    const int64_t row = task / groups * rows;
    if (row < m) {
      multiply_block(product, row, std::min(rows, m - row), task % groups * kBlockPanels);
    }
  });
}

// `a` as the arithmetic wants it, in memory that the calling thread keeps for the next call.
void prepare_rows(Product& product, ThreadPool& pool) {
  const MatmulPackedArgs& args = product.args;
  const DType wanted = product.arithmetic == Arithmetic::kBf16Pairs ? DType::kBF16 : DType::kF32;
  if (product.arithmetic != Arithmetic::kInt8 && args.a_dtype == wanted &&
      product.depth == args.weight.k) {
    product.a = args.a.as<char>();
    product.row_bytes = args.a_stride * dtype_size(wanted);
    return;
  }
  static thread_local fast::Scratch scratch;
  // One line more a row: rows a large power of two apart would fall into the same cache set.
  product.row_bytes = round_up(row_bytes_of(product.arithmetic, product.depth), 64) + 64;
  float* scales = scratch.floats(round_up(args.m, 16) + args.m * product.row_bytes / 4);
  char* rows = reinterpret_cast<char*>(scales + round_up(args.m, 16));
  pool.parallel_for(
      args.m, std::max<int64_t>(1, kGrain / product.depth), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          ActivationRow row;
          row.arithmetic = product.arithmetic;
          row.source = args.a.as<char>() + r * args.a_stride * dtype_size(args.a_dtype);
          row.dtype = args.a_dtype;
          row.k = args.weight.k;
          row.padded = product.depth;
          row.limit = static_cast<float>(kActivationLimit);
          row.out = rows + r * product.row_bytes;
          scales[r] = product.isa.activations(row);
        }
      });
  product.a = rows;
  if (product.arithmetic == Arithmetic::kInt8) {
    product.a_scales = scales;
  }
}

}  // namespace

void matmul_packed_with(const IsaKernels& isa, const MatmulPackedArgs& args, ThreadPool& pool) {
  Product product{.isa = isa,
                  .args = args,
                  .arithmetic = arithmetic_of(isa, args),
                  .depth = packed_depth(args.weight),
                  .row_bytes = 0,
                  .a = nullptr,
                  .a_scales = nullptr};
  prepare_rows(product, pool);
  if (args.m == 1 || args.m * product.depth <= kFewElements) {
    multiply_few_rows(product, pool);
  } else {
    multiply_many_rows(product, pool);
  }
}

}  // namespace plait::cpu::serve
