// One decoder layer of the Qwen3, Qwen2 and Llama families, with hand-written backward. Written for
// one device: what crosses ranks happens in the TensorRegion. Letters: tensor/tensor.h.
#pragma once

#include <array>
#include <cstdint>

#include "op/attention.h"
#include "parallel/parameter_store.h"
#include "parallel/tensor/region.h"
#include "spec/activation_table.h"
#include "tensor/tensor.h"

namespace plait {

struct LayerParams {
  Parameter norm1, qkv, qkv_bias, q_norm, k_norm, o, o_bias;
  Parameter norm2, gate_up, gate_up_bias, down, down_bias;
};
LayerParams find_layer_params(const ParameterStore& store, int64_t layer, int chunk);

// Adds grad_y_TO^T x_TI to the gradient of a Linear weight.
void add_weight_gradient(const Tensor& grad_y_TO, const Tensor& x_TI, Parameter& weight_OI);

// What forward left for backward: one tensor for each entry of the activation table; those that are
// not kept are empty between forward and backward.
class SavedTensors {
 public:
  Tensor& operator[](Saved id) { return tensors_[static_cast<size_t>(id)]; }
  const Tensor& operator[](Saved id) const { return tensors_[static_cast<size_t>(id)]; }

 private:
  std::array<Tensor, kNumSaved> tensors_;
};

struct LayerShape {
  int64_t tokens = 0;  // T of a micro-batch
  int64_t seq_len = 0;
  DType dtype = DType::kF32;
};

class TransformerLayer {
 public:
  // config, rope and region's group must outlive the layer.
  TransformerLayer(const ModelConfig& config, const Layout& layout, const LayerShape& shape,
                   LayerParams params, const RopeTable& rope, const TensorRegion& region);

  // x [Ts, D] -> [Ts, D]. With saved == nullptr nothing is kept (evaluation). Collective over tp.
  Tensor forward(const Tensor& x_TsD, SavedTensors* saved) const;

  // grad of the output -> grad of the input; weight gradients are accumulated. Empties `saved`.
  // May overwrite grad_TsD. Collective over tp.
  Tensor backward(Tensor grad_TsD, SavedTensors& saved);

 private:
  Tensor make(Saved id, MemoryCategory category) const;
  // Allocates the tensors that `forward` fills; kept ones as activations.
  void allocate(SavedTensors& saved) const;
  void drop_unkept(SavedTensors& saved) const;
  // Fills again what drop_unkept dropped.
  void restore(SavedTensors& saved) const;

  // Everything but the output, from kInput.
  void compute_saved(SavedTensors& saved) const;
  void add_attention_output(SavedTensors& saved) const;
  Tensor compute_output(const SavedTensors& saved) const;
  void norm(Saved x, Saved rstd, Saved y, const Parameter& weight, SavedTensors& saved) const;
  void qk_norm_and_rope(SavedTensors& saved) const;
  QkvColumns qkv_columns(const SavedTensors& saved) const;
  Tensor backward_mlp(const Tensor& grad_TsD, SavedTensors& saved);
  Tensor backward_attention(const Tensor& grad_TsD, SavedTensors& saved);
  void backward_qk(SavedTensors& saved, Tensor& grad_qkv);

  const ModelConfig& config_;
  bool full_recompute_;
  std::vector<SavedTensor> table_;
  LayerShape shape_;
  int64_t q_cols_, kv_cols_;  // of this rank
  LayerParams params_;
  const RopeTable& rope_;
  TensorRegion region_;
};

}  // namespace plait
