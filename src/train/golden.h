// Golden directories: an HF model with the answers of another implementation (logits, loss,
// gradients, greedy continuations, a training run), and their comparison with plait's under any
// layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/layout.h"

namespace plait {

// One compared part.
struct GoldenPart {
  std::string name;  // "logits", "grad model.norm.weight", "train loss", ...
  double error = 0;  // largest, relative to the largest expected value
  double limit = 0;
  bool passed() const { return error <= limit; }  // NaN fails
};

struct GoldenReport {
  std::string directory;
  std::string layout;
  std::vector<GoldenPart> parts;
  bool passed() const;
};

struct VerifyOptions {
  std::string directory;  // config.json, model.safetensors, golden.json, golden.safetensors and,
                          // if there is a training run, train.safetensors
  Layout layout;
  std::string device = "cpu";
  int threads_per_rank = 0;
  double deadline_s = 30;
};

// Runs all parts in f32. Limits: logits and gradients 1e-4 of the tensor's largest value; losses
// 1e-5; gradient norm 1e-5 at the first step and 1e-3 later; final weights 1e-2; greedy tokens
// exactly. Sequences and batches are padded to what the layout needs. Under MPI every rank calls it
// and rank 0 has the report; elsewhere ranks are threads. Errors: kNotFound, kCorruptData,
// kInvalidArgument.
GoldenReport verify_golden(const VerifyOptions& options);

}  // namespace plait
