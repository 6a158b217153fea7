// The parameters of one rank: flat buffers laid out by the parameter table
// (spec/parameter_table.h), with views by name.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/parallel_context.h"
#include "spec/parameter_table.h"
#include "tensor/tensor.h"

namespace plait {

// A weight with its gradient accumulator. Empty when the model has no such parameter.
//
// Gradients are not zeroed before a step: what comes first overwrites them, which saves a pass over
// memory. Copies of a Parameter and all that share its gradient know of it.
class Parameter {
 public:
  Parameter() = default;
  Parameter(Tensor weight_view, Tensor grad_view, std::span<uint8_t> begun)
      : weight(std::move(weight_view)), grad_(std::move(grad_view)), begun_(begun) {}
  explicit operator bool() const { return static_cast<bool>(weight); }

  Tensor weight;  // compute precision

  // f32. For an operator that adds: zeroed first if nothing has been added in this step.
  Tensor& grad_to_add();
  // For an operator that can overwrite all of it: `accumulate` is set if it must add.
  Tensor& grad_to_write(bool& accumulate);

 private:
  bool begin();  // false if it had begun

  Tensor grad_;
  std::span<uint8_t> begun_;  // of the store, one for each parameter that is seen as one here
};

struct ParameterStoreOptions {
  DType compute_dtype = DType::kF32;
  int64_t vocab_multiple = 1;
  int64_t bucket_count = 4 << 20;  // elements
};

class ParameterStore {
 public:
  // Allocates weights and gradients; weights are uninitialised, gradients zero.
  ParameterStore(const ModelConfig& config, const ParallelContext& context,
                 const ParameterStoreOptions& options);

  const std::vector<ParamSpec>& table() const { return table_; }
  const FlatLayout& flat() const { return flat_; }
  Tensor& weights() { return weights_; }  // [flat().count], compute precision
  Tensor& grads() { return grads_; }      // [flat().count], f32
  Device& device() const { return weights_.device(); }

  // A step begins with no gradient, and its backward must have written all of them.
  void begin_grads();
  void check_grads() const;

  // The parameter of that name on `chunk`, or an empty one if this rank does not hold it there.
  Parameter find(const std::string& name, int chunk) const;
  // Adjacent parameters as one: the rows of all names below each other.
  Parameter find_fused(const std::vector<std::string>& names, int chunk) const;

  // Sets a flat f32 image of this rank's parameters from a source of logical values: `fill(spec,
  // shard, out)` writes shard.count() values; padding stays zero.
  using ShardSource = std::function<void(const ParamSpec&, const Shard&, std::span<float>)>;
  std::vector<float> build_image(const ShardSource& fill) const;

 private:
  Parameter view(const LocalParam& param, int64_t rows, size_t num_params) const;
  const LocalParam* locate(const std::string& name, int chunk) const;

  std::vector<ParamSpec> table_;
  FlatLayout flat_;
  Tensor weights_;
  Tensor grads_;
  mutable std::vector<uint8_t> begun_;  // by parameter of flat(): views write to it
};

// Initial values: a function of (seed, name, logical index) alone, so that neither layout nor
// padding nor rank changes them. `stddev` is the model's initializer_range.
ParameterStore::ShardSource random_initial_values(uint64_t seed, double stddev);

}  // namespace plait
