// prepare_qkv and paged_attention with each instruction set of this CPU, and on the guard device:
// against sums in double over contiguous keys, and bit for bit against themselves with prompts cut
// into other chunks, other company, blocks and thread counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "device/serve_isa.h"
#include "device/serve_kernels.h"
#include "support/test_device.h"

namespace plait::test {
namespace {

using Floats = std::vector<float>;

struct Shape {
  int64_t heads, kv_heads, dim;
  DType dtype, kv_dtype;
  int64_t width() const { return (heads + 2 * kv_heads) * dim; }
  KvLayout kv() const { return {kv_heads, dim, kv_dtype}; }
};

constexpr float kEps = 1e-6F;
constexpr int64_t kBlocks = 200;
constexpr int64_t kMaxPositions = 1600;

// A request: rows of qkv for its tokens, and the cache blocks that it was given.
struct Request {
  Floats qkv;
  std::vector<int32_t> blocks;
  int64_t tokens = 0;
};

Request make_request(const Shape& shape, uint64_t seed, int64_t tokens, int32_t first_block,
                     int32_t block_step) {
  Request request;
  request.tokens = tokens;
  request.qkv = round_to(random_values(seed, tokens * shape.width(), 2), shape.dtype);
  for (int64_t i = 0; i * kKvBlockTokens < tokens; ++i) {
    request.blocks.push_back((first_block + static_cast<int32_t>(i) * block_step) % kBlocks);
  }
  return request;
}

// Tokens [begin, end) of a request in one step.
struct Chunk {
  const Request* request;
  int64_t begin, end;
};
using Step = std::vector<Chunk>;

class PagedAttention : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    use_serve_isa(GetParam());
    use_threads(2);
  }
  void TearDown() override { cpu::serve::force_isa(""); }
  void use_threads(int num_threads) {
    device_ = make_test_device(GetParam() == "guard" ? "guard" : "cpu", num_threads);
  }

  // Runs the steps on a fresh cache full of NaN. Returns the attention output of each chunk's rows,
  // in order.
  std::vector<Floats> run(const Shape& shape, const std::vector<Step>& steps, bool norm = true) {
    Kernels& kernels = device_->kernels();
    const int64_t bytes = kernels.kv_block_bytes(shape.kv()) * kBlocks;
    const Tensor cache = upload(*device_, {bytes / 4}, Floats(index(bytes / 4), std::nanf("")));
    const Tensor q_norm = upload(*device_, {shape.dim}, random_values(91, shape.dim, 1.5F));
    const Tensor k_norm = upload(*device_, {shape.dim}, random_values(92, shape.dim, 1.5F));
    const int64_t half = shape.dim / 2;
    const Tensor cos = upload(*device_, {kMaxPositions, half}, angles(half, false));
    const Tensor sin = upload(*device_, {kMaxPositions, half}, angles(half, true));
    std::vector<Floats> outputs;
    for (const Step& step : steps) {
      const Inputs inputs = gather(shape, step);
      const int64_t rows = static_cast<int64_t>(inputs.positions.size());
      const Tensor qkv = upload(*device_, {rows, shape.width()}, inputs.qkv, shape.dtype);
      const Tensor positions = upload_ids(*device_, inputs.positions);
      const Tensor slots = upload_ids(*device_, inputs.slots);
      const Tensor tables = upload_ids(*device_, inputs.tables);
      const Tensor runs = upload_ids(*device_, inputs.runs);
      PrepareQkvArgs prepare;
      prepare.qkv = qkv.ptr();
      prepare.q_norm = norm ? q_norm.ptr() : DevicePtr();
      prepare.k_norm = norm ? k_norm.ptr() : DevicePtr();
      prepare.cos = cos.ptr();
      prepare.sin = sin.ptr();
      prepare.positions = positions.ptr();
      prepare.slots = slots.ptr();
      prepare.kv_cache = cache.ptr();
      prepare.kv = shape.kv();
      prepare.rows = rows;
      prepare.heads = shape.heads;
      prepare.qkv_stride = shape.width();
      prepare.norm_eps = kEps;
      prepare.dtype = shape.dtype;
      kernels.prepare_qkv(device_->stream(), prepare);
      const Tensor out(*device_, {rows, shape.heads * shape.dim}, shape.dtype,
                       MemoryCategory::kWorkspace);
      PagedAttentionArgs args;
      args.q = qkv.ptr();
      args.out = out.ptr();
      args.kv_cache = cache.ptr();
      args.runs = runs.ptr();
      args.block_tables = tables.ptr();
      args.kv = shape.kv();
      args.run_count = static_cast<int64_t>(step.size());
      args.table_stride = inputs.table_stride;
      args.heads = shape.heads;
      args.q_stride = shape.width();
      args.out_stride = shape.heads * shape.dim;
      args.scale = 1 / std::sqrt(static_cast<float>(shape.dim));
      args.dtype = shape.dtype;
      kernels.paged_attention(device_->stream(), args);
      const Floats values = download(*device_, out);
      auto at = values.begin();
      for (const Chunk& chunk : step) {
        const auto end = at + (chunk.end - chunk.begin) * shape.heads * shape.dim;
        outputs.emplace_back(at, end);
        at = end;
      }
    }
    return outputs;
  }

  // What attention over the contiguous tokens gives for token `t` and `head`, in double.
  static std::vector<double> expected(const Shape& shape, const Request& request, int64_t t,
                                      int64_t head, bool norm) {
    const int64_t kv_head = head / (shape.heads / shape.kv_heads);
    const std::vector<double> q = prepared(shape, request, t, head, norm ? 91 : 0);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t key = 0; key <= t; ++key) {
      const std::vector<double> k =
          prepared(shape, request, key, shape.heads + kv_head, norm ? 92 : 0);
      const double score = std::inner_product(q.begin(), q.end(), k.begin(), 0.0);
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(shape.dim))));
      sum += weights.back();
    }
    std::vector<double> out(index(shape.dim), 0.0);
    for (int64_t key = 0; key <= t; ++key) {
      for (int64_t i = 0; i < shape.dim; ++i) {
        const int64_t at =
            key * shape.width() + (shape.heads + shape.kv_heads + kv_head) * shape.dim + i;
        out[index(i)] += weights[index(key)] / sum * request.qkv[index(at)];
      }
    }
    return out;
  }

  std::unique_ptr<Device> device_;

 private:
  struct Inputs {
    Floats qkv;
    std::vector<int32_t> positions, slots, tables, runs;
    int64_t table_stride = 0;
  };

  static Inputs gather(const Shape& shape, const Step& step) {
    Inputs inputs;
    for (const Chunk& chunk : step) {
      inputs.table_stride = std::max<int64_t>(
          inputs.table_stride, static_cast<int64_t>(chunk.request->blocks.size()) + 1);
    }
    for (size_t c = 0; c < step.size(); ++c) {
      const auto& [request, begin, end] = step[c];
      inputs.runs.insert(inputs.runs.end(), {static_cast<int32_t>(inputs.positions.size()),
                                             static_cast<int32_t>(end - begin),
                                             static_cast<int32_t>(begin), static_cast<int32_t>(c)});
      for (int64_t t = begin; t < end; ++t) {
        inputs.positions.push_back(static_cast<int32_t>(t));
        const int64_t block = request->blocks[index(t / kKvBlockTokens)];
        inputs.slots.push_back(static_cast<int32_t>(block * kKvBlockTokens + t % kKvBlockTokens));
      }
      inputs.qkv.insert(inputs.qkv.end(), request->qkv.begin() + begin * shape.width(),
                        request->qkv.begin() + end * shape.width());
      std::vector<int32_t> table = request->blocks;
      table.resize(index(inputs.table_stride), std::numeric_limits<int32_t>::max());
      inputs.tables.insert(inputs.tables.end(), table.begin(), table.end());
    }
    return inputs;
  }

  static double angle(int64_t position, int64_t i, int64_t half) {
    return static_cast<double>(position) *
           std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
  }
  static Floats angles(int64_t half, bool sin) {
    Floats result;
    for (int64_t i = 0; i < kMaxPositions * half; ++i) {
      const double x = angle(i / half, i % half, half);
      result.push_back(static_cast<float>(sin ? std::sin(x) : std::cos(x)));
    }
    return result;
  }

  // Norm (if a seed for its weight is given) and rotation of one head.
  static std::vector<double> prepared(const Shape& shape, const Request& request, int64_t t,
                                      int64_t head, uint64_t norm_seed) {
    const auto begin = request.qkv.begin() + t * shape.width() + head * shape.dim;
    std::vector<double> x(begin, begin + shape.dim);
    if (norm_seed != 0) {
      const Floats weight = random_values(norm_seed, shape.dim, 1.5F);
      const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
      for (int64_t i = 0; i < shape.dim; ++i) {
        x[index(i)] *=
            weight[index(i)] / std::sqrt(squares / static_cast<double>(shape.dim) + kEps);
      }
    }
    const int64_t half = shape.dim / 2;
    for (int64_t i = 0; i < half; ++i) {
      const double a = angle(t, i, half);
      const double first = x[index(i)];
      const double second = x[index(i + half)];
      x[index(i)] = first * std::cos(a) - second * std::sin(a);
      x[index(i + half)] = second * std::cos(a) + first * std::sin(a);
    }
    return x;
  }
};

TEST_P(PagedAttention, IsRight) {
  for (const Shape& shape :
       {Shape{4, 2, 16, DType::kF32, DType::kF32}, Shape{3, 3, 10, DType::kF32, DType::kF32},
        Shape{7, 1, 34, DType::kF32, DType::kBF16}, Shape{4, 2, 64, DType::kBF16, DType::kBF16},
        Shape{2, 1, 256, DType::kBF16, DType::kF32}}) {
    for (const bool norm : {false, true}) {
      const Request request = make_request(shape, 1, 75, 3, 7);
      const Floats out = run(shape, {{{&request, 0, 75}}}, norm)[0];
      const double tolerance =
          shape.dtype == DType::kF32 && shape.kv_dtype == DType::kF32 ? 2e-5 : 0.06;
      for (const int64_t t : {0, 1, 14, 15, 16, 31, 50, 74}) {
        for (int64_t head = 0; head < shape.heads; ++head) {
          const std::vector<double> values = expected(shape, request, t, head, norm);
          for (int64_t i = 0; i < shape.dim; ++i) {
            ASSERT_NEAR(out[index((t * shape.heads + head) * shape.dim + i)], values[index(i)],
                        tolerance)
                << "token " << t << " head " << head << " dim " << i << " of " << shape.dim;
          }
        }
      }
    }
  }
}

// Beyond one block of keys, and for rows that decode.
TEST_P(PagedAttention, IsRightAtDepth) {
  const Shape shape{4, 2, 16, DType::kF32, DType::kF32};
  const int64_t tokens = 1300;
  const Request request = make_request(shape, 5, tokens, 11, 3);
  const std::vector<Floats> out =
      run(shape, {{{&request, 0, tokens - 1}}, {{&request, tokens - 1, tokens}}});
  for (const int64_t t : {511L, 512L, 513L, 1024L, tokens - 1}) {
    const Floats& rows = t == tokens - 1 ? out[1] : out[0];
    const int64_t row = t == tokens - 1 ? 0 : t;
    for (int64_t head = 0; head < shape.heads; ++head) {
      const std::vector<double> values = expected(shape, request, t, head, true);
      for (int64_t i = 0; i < shape.dim; ++i) {
        ASSERT_NEAR(rows[index((row * shape.heads + head) * shape.dim + i)], values[index(i)],
                    2e-5);
      }
    }
  }
}

TEST_P(PagedAttention, DoesNotDependOnChunksOrCompany) {
  if (GetParam() == "plain") {
    GTEST_SKIP() << "works row by row";
  }
  for (const Shape& shape :
       {Shape{6, 2, 32, DType::kF32, DType::kF32}, Shape{4, 2, 48, DType::kBF16, DType::kBF16}}) {
    const int64_t tokens = 1100;
    const Request request = make_request(shape, 1, tokens, 1, 1);
    const Request moved = make_request(shape, 1, tokens, 150, 199);  // blocks in falling order
    const Request other = make_request(shape, 2, 600, 80, 1);
    use_threads(1);
    const Floats whole = run(shape, {{{&request, 0, tokens}}})[0];
    const auto expect_rows = [&](int64_t begin, const Floats& rows) {
      const auto first = whole.begin() + begin * shape.heads * shape.dim;
      EXPECT_TRUE(std::equal(rows.begin(), rows.end(), first)) << "from row " << begin;
    };
    use_threads(3);
    const std::vector<Floats> chunks = run(shape, {{{&other, 0, 550}},
                                                   {{&request, 0, 7}, {&other, 550, 551}},
                                                   {{&other, 551, 552}, {&request, 7, 500}},
                                                   {{&request, 500, 501}},
                                                   {{&request, 501, 530}, {&other, 552, 600}},
                                                   {{&request, 530, 1099}},
                                                   {{&request, 1099, 1100}}});
    expect_rows(0, chunks[1]);
    expect_rows(7, chunks[4]);
    expect_rows(500, chunks[5]);
    expect_rows(501, chunks[6]);
    expect_rows(530, chunks[8]);
    expect_rows(1099, chunks[9]);
    use_threads(2);
    const std::vector<Floats> other_blocks =
        run(shape, {{{&moved, 0, 1030}}, {{&moved, 1030, 1033}}, {{&moved, 1033, 1034}}});
    expect_rows(0, other_blocks[0]);
    expect_rows(1030, other_blocks[1]);
    expect_rows(1033, other_blocks[2]);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, PagedAttention, testing::ValuesIn(serve_isas()),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace plait::test
