// A few steps of training a small model on random tokens, under any layout.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "train/engine.h"

namespace plait {

constexpr int64_t kSmallSeqLen = 12;
constexpr int64_t kSmallRows = 16;
constexpr int64_t kSmallVocab = 67;

// Qwen3-shaped, 4 layers; untied comes with all biases.
ModelConfig small_model(bool tied);

struct SmallRun {
  std::string layout = "dp1";
  std::vector<int64_t> stage_layers = {};
  Recompute recompute = Recompute::kNone;
  ScheduleKind schedule = ScheduleKind::kOneFOneB;
  bool tied = true;
  std::string device = "cpu";
  int64_t vocab_multiple = 1;
  int64_t bucket_count = 2000;
  DType dtype = DType::kF32;
  bool overlap = true;
  int steps = 20;
  int64_t micro_batch_size = 1;
  // Row `row` of step `step` (from 1): see small_row(), the default.
  std::function<void(int step, int64_t row, int32_t* tokens, int32_t* targets)> read_row = {};
  // Changes what run_small() would run.
  std::function<void(EngineConfig& config)> adjust = {};
  // Called on each rank before the first step (0) and after each.
  std::function<void(Engine& engine, int step)> after_step = {};
};

// Random tokens; some labels are masked, unevenly over the rows.
void small_row(int step, int64_t row, int32_t* tokens, int32_t* targets);

struct SmallResult {
  std::vector<double> losses;
  std::vector<double> norms;                          // inf where fp16 gradients overflowed
  std::map<std::string, std::vector<float>> grads;    // of step 1
  std::map<std::string, std::vector<float>> weights;  // at the end
};

SmallResult run_small(const SmallRun& run);

// For test names: the layout and what else is set.
std::string small_run_name(const SmallRun& run);

// Largest difference relative to the largest expected value, over all tensors; where it is.
struct TensorError {
  double error = 0;
  std::string name;
};
TensorError largest_error(const std::map<std::string, std::vector<float>>& expected,
                          const std::map<std::string, std::vector<float>>& actual);

// Largest relative difference of a step's loss; NaN if there is one.
double worst_loss_error(const SmallResult& expected, const SmallResult& actual);

// `actual` within the f32 limits of `expected`: losses 1e-5; gradient norm 1e-5 at the first step
// and 1e-3 later; gradients of the first step 1e-5; final weights 1e-2 (AdamW amplifies rounding).
void expect_f32_parity(const SmallResult& expected, const SmallResult& actual);

// Every number is the same.
void expect_identical(const SmallResult& expected, const SmallResult& actual);

}  // namespace plait
