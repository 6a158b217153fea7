#include "spec/activation_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "random_run.h"

namespace plait {
namespace {

using test::random_run;
using test::RandomRun;

std::map<Saved, SavedTensor> by_id(const std::vector<SavedTensor>& tensors) {
  std::map<Saved, SavedTensor> result;
  for (const SavedTensor& tensor : tensors) {
    EXPECT_TRUE(result.emplace(tensor.id, tensor).second) << "listed twice";
  }
  return result;
}

constexpr ActivationShape kShape = {.tokens = 24, .dtype = DType::kBF16};

TEST(ActivationTable, ListsEachTensorOnce) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomRun run = random_run(seed);
    const auto tensors = by_id(layer_saved_tensors(run.model, run.layout, kShape));
    ASSERT_EQ(tensors.size(), static_cast<size_t>(run.model.qk_norm ? kNumSaved : kNumSaved - 3));
    for (const auto& [id, tensor] : tensors) {
      int64_t bytes = tensor.dtype == DType::kF32 ? 4 : 2;
      for (const int64_t dim : tensor.shape) {
        ASSERT_GT(dim, 0);
        bytes *= dim;
      }
      ASSERT_EQ(tensor.bytes(), bytes);
    }
  }
}

// Recomputation only changes what is kept: shapes stay, and the input is always there.
TEST(ActivationTable, RecomputeModesNest) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomRun run = random_run(seed);
    const auto table = [&](Recompute recompute) {
      run.layout.recompute = recompute;
      return by_id(layer_saved_tensors(run.model, run.layout, kShape));
    };
    const auto none = table(Recompute::kNone);
    const auto selective = table(Recompute::kSelective);
    const auto full = table(Recompute::kFull);
    for (const auto& [id, tensor] : none) {
      ASSERT_TRUE(tensor.kept);
      ASSERT_EQ(tensor.shape, selective.at(id).shape);
      ASSERT_EQ(tensor.shape, full.at(id).shape);
      ASSERT_EQ(full.at(id).kept, id == Saved::kInput);
      const std::set<Saved> cheap = {Saved::kNorm1, Saved::kNorm2, Saved::kSwiglu, Saved::kRotated};
      ASSERT_EQ(selective.at(id).kept, cheap.count(id) == 0);
    }
  }
}

TEST(ActivationTable, TensorParallelismSplitsWhatIsInsideTheRegion) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomRun run = random_run(seed);
    ActivationShape shape = kShape;
    shape.tokens = 12 * run.layout.tp;
    const int64_t tp = run.layout.tp;
    const auto split = by_id(layer_saved_tensors(run.model, run.layout, shape));
    Layout whole = run.layout;
    whole.tp = 1;
    whole.sp = false;
    const std::set<Saved> outside = {Saved::kInput, Saved::kNorm1Rstd, Saved::kNorm1,
                                     Saved::kMid,   Saved::kNorm2Rstd, Saved::kNorm2};
    for (const auto& [id, tensor] : by_id(layer_saved_tensors(run.model, whole, shape))) {
      const bool divided = run.layout.sp || outside.count(id) == 0;
      ASSERT_EQ(split.at(id).bytes() * (divided ? tp : 1), tensor.bytes());
    }
  }
}

// Korthikanti et al. 2022 count 34 bytes per element of s b h in 16 bits with a 4 h GELU MLP, two
// dropout masks and f32-free norms. Here: a layer of h = a * hd without GQA and a gated MLP of f.
TEST(ActivationTable, SixteenBitBytesPerLayer) {
  ModelConfig model;
  model.hidden_size = 512;
  model.num_heads = model.num_kv_heads = 8;
  model.head_dim = 64;
  model.ffn_hidden_size = 2048;
  const int64_t tokens = 256;
  const double sbh = 256.0 * 512;
  const double f = 2048.0 / 512;
  const auto per_sbh = [&](const Layout& layout) {
    const auto bytes = layer_saved_bytes(model, layout, {.tokens = tokens, .dtype = DType::kBF16});
    return static_cast<double>(bytes) / sbh;
  };
  // f32 statistics: two rstd a token, one log-sum-exp a head and token.
  const double statistics = 4.0 * (2 + 8) / 512;
  // input 2, norm 2, qkv 6, attention 2, residual 2, norm 2; gate and up 4 f/h, their product 2
  // f/h.
  EXPECT_DOUBLE_EQ(per_sbh({}), 16 + 6 * f + statistics);
  EXPECT_DOUBLE_EQ(per_sbh({.recompute = Recompute::kSelective}), 12 + 4 * f + statistics);
  // "2sbh" of the paper.
  EXPECT_DOUBLE_EQ(per_sbh({.recompute = Recompute::kFull}), 2);
  // With tp and sequence parallelism everything is divided: "34/t".
  EXPECT_DOUBLE_EQ(per_sbh({.tp = 4, .sp = true}), (16 + 6 * f + statistics) / 4);
  // Without sp, inputs, residuals and norms are whole: "10 + 24/t" of the paper, where the 10
  // include the two dropout masks that these models lack.
  EXPECT_DOUBLE_EQ(per_sbh({.tp = 4}), 8 + (8 + 6 * f) / 4 + 4.0 * (2 + 8.0 / 4) / 512);
  EXPECT_DOUBLE_EQ(per_sbh({.tp = 4, .sp = true, .recompute = Recompute::kFull}), 0.5);
}

}  // namespace
}  // namespace plait
