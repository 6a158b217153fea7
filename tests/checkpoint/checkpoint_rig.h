// A training state of known values on one rank: every element is a function of (kind, parameter
// name, logical index), so that any rank of any layout can check what it holds.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/sharded_checkpoint.h"
#include "comm/rank_runner.h"

namespace plait::test {

struct RigOptions {
  std::string layout = "dp1";
  bool tied = true;
  std::vector<int64_t> stage_layers = {};
  int64_t vocab_multiple = 1;
  int64_t bucket_count = 500;
  DType dtype = DType::kF32;
  std::string device = "cpu";
};

ModelConfig rig_model(bool tied);
Layout rig_layout(const RigOptions& options);

class Rig {
 public:
  // Collective over the world.
  Rig(const RigOptions& options, World& world);

  TrainState state() { return {store_, optimizer_, context_, model_}; }
  // Sets masters, weights and moments to the values of `seed`.
  void fill(uint64_t seed);
  // Number of elements on this rank that differ from the values of `seed` in any bit: weights with
  // their padding, masters, moments.
  int64_t count_wrong(uint64_t seed);
  int64_t count_wrong_weights(uint64_t seed);

  const ParallelContext& context() const { return context_; }

 private:
  std::vector<float> values_of(const Tensor& tensor);
  int64_t count_wrong_moments(uint64_t seed, StateKind kind);
  Tensor& moment(StateKind kind);

  ModelConfig model_;
  ParallelContext context_;
  ParameterStore store_;
  ShardedAdamw optimizer_;
};

// Runs body(rig) on every rank of the options' layout.
void run_rig(const RigOptions& options, const std::function<void(Rig&)>& body);

// Saves the values of `seed` as that step's checkpoint.
void save_rig(const RigOptions& options, const std::string& directory, int64_t step, uint64_t seed);

}  // namespace plait::test
