#include "device/cpu/gemm_packed.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>

#include "base/error.h"
#include "base/round_up.h"
#include "device/cpu/gemm.h"

namespace plait::cpu {
namespace {

constexpr int64_t kSharedFloats = int64_t{1} << 20;  // panels of the shared operand: 4 MiB
constexpr int64_t kSharedWidth = 1024;
constexpr int64_t kSerialWork = int64_t{1} << 18;        // m n k below which one thread does it all
constexpr int64_t kSerialPackFloats = int64_t{1} << 14;  // panels that one thread packs alone

// Memory that grows and stays.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { std::free(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* floats(int64_t count) {
    if (count > capacity_) {
      std::free(data_);
      constexpr int64_t kHugePage = int64_t{1} << 21;
      int64_t bytes = round_up(count * 4, 4096);
      const bool huge = bytes >= kHugePage / 2;
      bytes = huge ? round_up(bytes, kHugePage) : bytes;
      data_ = static_cast<float*>(std::aligned_alloc(static_cast<size_t>(huge ? kHugePage : 4096),
                                                     static_cast<size_t>(bytes)));
      capacity_ = data_ == nullptr ? 0 : bytes / 4;
      if (data_ == nullptr) {
        throw_error(
            ErrorCode::kResourceExhausted,
            "cannot allocate {} bytes for the panels of a matrix product; use fewer ranks or "
            "threads on this machine",
            bytes);
      }
      if (huge) {
        madvise(data_, static_cast<size_t>(bytes), MADV_HUGEPAGE);
      }
    }
    return data_;
  }

 private:
  float* data_ = nullptr;
  int64_t capacity_ = 0;
};

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): memory that a thread keeps.
thread_local Scratch shared_scratch;   // of the calling thread: panels that all threads read
thread_local Scratch private_scratch;  // panels of one thread
thread_local Scratch partial_scratch;  // f32 sums of a 16-bit c
thread_local Scratch bias_scratch;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

// op(a) by rows or op(b) by columns.
struct Operand {
  const char* data;
  int64_t width_stride, depth_stride, width;
  DType dtype;
  int64_t panel;  // mr or nr
  void (*pack)(const PackArgs&);
};

class PackedGemm {
 public:
  PackedGemm(const PackedKernels& kernels, const GemmArgs& args, ThreadPool& pool)
      : kernels_(kernels),
        g_(args),
        pool_(pool),
        threads_(args.m * args.n * args.k < kSerialWork ? 1 : pool.num_threads()),
        share_a_(args.m <= args.n) {
    const Operand a{static_cast<const char*>(args.a),
                    args.transpose_a ? 1 : args.a_stride,
                    args.transpose_a ? args.a_stride : 1,
                    args.m,
                    args.input_dtype,
                    kernels.mr,
                    kernels.pack_a};
    const Operand b{static_cast<const char*>(args.b),
                    args.transpose_b ? args.b_stride : 1,
                    args.transpose_b ? 1 : args.b_stride,
                    args.n,
                    args.input_dtype,
                    kernels.nr,
                    kernels.pack_b};
    a_ = a;
    b_ = b;
    shared_ = share_a_ ? a : b;
    private_ = share_a_ ? b : a;
  }

  void run() {
    convert_bias();
    if (prefers_dot()) {
      run_dot();
    } else if (prefers_stored()) {
      run_stored();
    } else {
      run_packed();
    }
  }

 private:
  // The limits are measured (gemm_bench --filter few, --filter tiny).
  bool prefers_dot() const {
    return kernels_.dot != nullptr && !g_.transpose_a && g_.transpose_b &&
           g_.m <= (g_.k >= 256 ? 8 : 3);
  }

  bool prefers_stored() const {
    const bool b_in_l2 = g_.n * g_.k * 4 <= int64_t{256} << 10;
    return kernels_.stored_block != nullptr && !g_.transpose_b && g_.m <= (b_in_l2 ? 48 : 2);
  }

  void run_packed() {
    const int64_t chunk = std::min(shared_.width, round_up(kSharedWidth, shared_.panel));
    const int64_t padded = round_up(chunk, shared_.panel);
    super_depth_ =
        std::max<int64_t>(kSharedFloats * kernels_.depth_per_entry / padded / kernels_.kc, 1) *
        kernels_.kc;
    float* panels = shared_scratch.floats(
        padded * divide_up(std::min(super_depth_, g_.k), kernels_.depth_per_entry));
    float* partial = nullptr;
    if (g_.output_dtype != DType::kF32 && g_.k > super_depth_) {
      partial = partial_scratch.floats(share_a_ ? chunk * g_.n : g_.m * chunk);
    }
    for (int64_t first = 0; first < shared_.width; first += chunk) {
      const int64_t width = std::min(chunk, shared_.width - first);
      for (int64_t k = 0; k < g_.k; k += super_depth_) {
        Step step{first, width, k, std::min(super_depth_, g_.k - k), panels, partial};
        pack_shared(step);
        compute(step);
      }
    }
  }

  // Columns (or rows) [first, first + width) of the shared operand, depths [k, k + depth).
  struct Step {
    int64_t first, width;
    int64_t k, depth;
    float* panels;
    float* partial;  // f32 sums for every element of this chunk of c, or null
  };

  int64_t entries(int64_t depth) const { return divide_up(depth, kernels_.depth_per_entry); }

  void convert_bias() {
    bias_ = static_cast<const float*>(g_.bias);
    if (g_.bias == nullptr || g_.input_dtype == DType::kF32) {
      return;
    }
    float* bias = bias_scratch.floats(g_.n);
    for (int64_t j = 0; j < g_.n; ++j) {
      bias[j] = g_.input_dtype == DType::kBF16 ? to_float(static_cast<const BFloat16*>(g_.bias)[j])
                                               : to_float(static_cast<const Float16*>(g_.bias)[j]);
    }
    bias_ = bias;
  }

  void pack(const Operand& x, int64_t first, int64_t width, int64_t k, int64_t depth,
            float* panels) const {
    PackArgs pack;
    pack.source = x.data + (first * x.width_stride + k * x.depth_stride) * dtype_size(x.dtype);
    pack.width_stride = x.width_stride;
    pack.depth_stride = x.depth_stride;
    pack.width = width;
    pack.depth = depth;
    pack.dtype = x.dtype;
    pack.panels = panels;
    x.pack(pack);
  }

  template <typename F>
  void on_threads(int threads, F body) {
    if (threads == 1) {
      body();
      return;
    }
    const std::function<void(int)> task = [&body](int /*thread*/) { body(); };
    pool_.run(task);
  }

  void pack_shared(const Step& step) {
    const int64_t padded = round_up(step.width, shared_.panel);
    const int64_t unit = round_up(64, shared_.panel);  // columns a task packs
    const int64_t units = divide_up(step.width, unit);
    const int64_t blocks = divide_up(step.depth, kernels_.kc);
    std::atomic<int64_t> next{0};
    on_threads(padded * entries(step.depth) < kSerialPackFloats ? 1 : threads_, [&] {
      for (int64_t task; (task = next.fetch_add(1)) < units * blocks;) {
        const int64_t k = task / units * kernels_.kc;
        const int64_t first = task % units * unit;
        const int64_t depth = std::min(kernels_.kc, step.depth - k);
        pack(shared_, step.first + first, std::min(unit, step.width - first), step.k + k, depth,
             step.panels + padded * entries(k) + first * entries(depth));
      }
    });
  }

  void compute(const Step& step) {
    const int64_t most = !share_a_                    ? kernels_.mc
                         : private_.depth_stride == 1 ? kernels_.nc
                                                      : kernels_.wide_nc;
    const int64_t blocks = round_up(divide_up(private_.width, most), threads_);
    const int64_t unit = round_up(divide_up(private_.width, blocks), private_.panel);
    std::atomic<int64_t> next{0};
    on_threads(threads_, [&] {
      for (int64_t first; (first = next.fetch_add(1) * unit) < private_.width;) {
        compute_part(step, first, std::min(unit, private_.width - first));
      }
    });
  }

  // All depths of the step for one part of the private operand.
  void compute_part(const Step& step, int64_t first, int64_t width) {
    float* panels = private_scratch.floats(round_up(width, private_.panel) * entries(kernels_.kc));
    const int64_t shared_padded = round_up(step.width, shared_.panel);
    BlockArgs block;
    const int64_t row = share_a_ ? step.first : first;
    const int64_t col = share_a_ ? first : step.first;
    const int64_t rows = share_a_ ? step.width : width;
    block.n = share_a_ ? width : step.width;
    block.c_dtype = g_.output_dtype;
    block.c_stride = g_.c_stride;
    char* c = static_cast<char*>(g_.c) + (row * g_.c_stride + col) * dtype_size(g_.output_dtype);
    const int64_t mc = round_up(divide_up(rows, divide_up(rows, kernels_.mc)), kernels_.mr);
    float* partial = nullptr;
    if (g_.output_dtype == DType::kF32) {
      partial = reinterpret_cast<float*>(c);
      block.partial_stride = g_.c_stride;
    } else if (step.partial != nullptr) {
      block.partial_stride = share_a_ ? g_.n : step.width;
      partial = step.partial + (share_a_ ? first : first * step.width);
    } else {
      block.partial_stride = block.n;
      partial = partial_scratch.floats(rows * block.n);
    }
    for (int64_t k = 0; k < step.depth; k += kernels_.kc) {
      const int64_t depth = std::min(kernels_.kc, step.depth - k);
      pack(private_, first, width, step.k + k, depth, panels);
      const float* shared = step.panels + shared_padded * entries(k);
      block.depth = entries(depth);
      block.last = step.k + k + depth == g_.k;
      block.add_partial = step.k + k > 0 || (g_.accumulate && g_.output_dtype == DType::kF32);
      block.add_c = block.last && g_.accumulate && g_.output_dtype != DType::kF32;
      block.bias = block.last && bias_ != nullptr ? bias_ + col : nullptr;
      block.b_panels = share_a_ ? panels : shared;
      for (int64_t i = 0; i < rows; i += mc) {
        block.m = std::min(mc, rows - i);
        block.a_panels = (share_a_ ? shared : panels) + i * block.depth;
        block.partial = partial + i * block.partial_stride;
        block.c = c + i * g_.c_stride * dtype_size(g_.output_dtype);
        kernels_.block(block);
      }
    }
  }

  // Columns [first, first + width) of c, all rows; what does not change from block to block.
  BlockArgs columns_of_c(int64_t first, int64_t width) const {
    BlockArgs block;
    block.m = g_.m;
    block.n = width;
    block.c = static_cast<char*>(g_.c) + first * dtype_size(g_.output_dtype);
    block.c_stride = g_.c_stride;
    block.c_dtype = g_.output_dtype;
    block.b_stride = g_.b_stride;
    block.b_dtype = g_.input_dtype;
    const bool f32 = g_.output_dtype == DType::kF32;
    block.partial = f32 ? static_cast<float*>(block.c) : partial_scratch.floats(g_.m * width);
    block.partial_stride = f32 ? g_.c_stride : width;
    return block;
  }

  // What block `k` of depth `depth` adds to c.
  void set_sums(int64_t k, int64_t depth, int64_t first, BlockArgs* block) const {
    const bool f32 = g_.output_dtype == DType::kF32;
    block->last = k + depth == g_.k;
    block->add_partial = k > 0 || (f32 && g_.accumulate);
    block->add_c = block->last && g_.accumulate && !f32;
    block->bias = block->last && bias_ != nullptr ? bias_ + first : nullptr;
  }

  // Few rows, b [k, n]: the micro-kernel reads b where it is.
  void run_stored() {
    const int64_t unit = round_up(64, kernels_.nr);
    pool_for(divide_up(g_.n, unit), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * unit;
      const int64_t width = std::min(g_.n, end * unit) - first;
      const int64_t edge = width % kernels_.nr;
      const int64_t a_floats = round_up(g_.m, kernels_.mr) * kernels_.kc;
      float* panels = private_scratch.floats(a_floats + kernels_.nr * kernels_.kc);
      BlockArgs block = columns_of_c(first, width);
      block.a_panels = panels;
      block.b_panels = panels + a_floats;
      for (int64_t k = 0; k < g_.k; k += kernels_.kc) {
        block.depth = std::min(kernels_.kc, g_.k - k);
        pack(a_, 0, g_.m, k, block.depth, panels);
        if (edge > 0) {
          pack(b_, first + width - edge, edge, k, block.depth, panels + a_floats);
        }
        block.b_stored = b_.data + (k * g_.b_stride + first) * dtype_size(g_.input_dtype);
        set_sums(k, block.depth, first, &block);
        kernels_.stored_block(block);
      }
    });
  }

  // Few rows, b [n, k]: dot products.
  void run_dot() {
    const float* a = static_cast<const float*>(g_.a);
    int64_t a_stride = g_.a_stride;
    if (g_.input_dtype != DType::kF32) {
      a = convert_a();
      a_stride = g_.k;
    }
    pool_for(divide_up(g_.n, 16), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * 16;
      BlockArgs block = columns_of_c(first, std::min(g_.n, end * 16) - first);
      block.depth = g_.k;
      block.a_panels = a;
      block.a_stride = a_stride;
      block.b_stored = b_.data + first * g_.b_stride * dtype_size(g_.input_dtype);
      set_sums(0, g_.k, first, &block);
      kernels_.dot(block);
    });
  }

  const float* convert_a() {
    float* a = shared_scratch.floats(g_.m * g_.k);
    for (int64_t i = 0; i < g_.m; ++i) {
      for (int64_t k = 0; k < g_.k; ++k) {
        const int64_t at = i * g_.a_stride + k;
        a[i * g_.k + k] = g_.input_dtype == DType::kBF16
                              ? to_float(static_cast<const BFloat16*>(g_.a)[at])
                              : to_float(static_cast<const Float16*>(g_.a)[at]);
      }
    }
    return a;
  }

  // Splits [0, count) over the threads.
  template <typename F>
  void pool_for(int64_t count, F body) {
    if (threads_ == 1) {
      body(0, count);
    } else {
      const std::function<void(int64_t, int64_t)> task = [&body](int64_t begin, int64_t end) {
        body(begin, end);
      };
      pool_.parallel_for(count, 1, task);
    }
  }

  const PackedKernels& kernels_;
  const GemmArgs& g_;
  ThreadPool& pool_;
  int threads_;
  bool share_a_;
  int64_t super_depth_ = 0;
  Operand a_{}, b_{};
  Operand shared_{}, private_{};
  const float* bias_ = nullptr;
};

}  // namespace

bool gemm_packed(const PackedKernels& kernels, const GemmArgs& args, ThreadPool& pool) {
  if (args.k == 0 || (kernels.bf16_only && args.input_dtype != DType::kBF16)) {
    return false;
  }
  if (args.m > 0 && args.n > 0) {
    PackedGemm(kernels, args, pool).run();
  }
  return true;
}

}  // namespace plait::cpu
