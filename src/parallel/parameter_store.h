// The parameters of one rank: flat buffers laid out by the parameter table
// (spec/parameter_table.h), with views by name.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "parallel/parallel_context.h"
#include "spec/parameter_table.h"
#include "tensor/tensor.h"

namespace plait {

// A weight with its gradient accumulator. Empty when the model has no such parameter.
struct Parameter {
  Tensor weight;  // compute precision
  Tensor grad;    // f32
  explicit operator bool() const { return static_cast<bool>(weight); }
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

  // The parameter of that name on `chunk`, or an empty one if this rank does not hold it there.
  Parameter find(const std::string& name, int chunk) const;
  // Adjacent parameters as one: the rows of all names below each other.
  Parameter find_fused(const std::vector<std::string>& names, int chunk) const;

  // Sets a flat f32 image of this rank's parameters from a source of logical values: `fill(spec,
  // shard, out)` writes shard.count() values; padding stays zero.
  using ShardSource = std::function<void(const ParamSpec&, const Shard&, std::span<float>)>;
  std::vector<float> build_image(const ShardSource& fill) const;

 private:
  Parameter view(const LocalParam& param, int64_t rows) const;
  const LocalParam* locate(const std::string& name, int chunk) const;

  std::vector<ParamSpec> table_;
  FlatLayout flat_;
  Tensor weights_;
  Tensor grads_;
};

// Initial values: a function of (seed, name, logical index) alone, so that neither layout nor
// padding nor rank changes them. `stddev` is the model's initializer_range.
ParameterStore::ShardSource random_initial_values(uint64_t seed, double stddev);

}  // namespace plait
