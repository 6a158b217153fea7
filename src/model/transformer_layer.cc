#include "model/transformer_layer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "op/elementwise.h"
#include "op/linear.h"
#include "op/norm.h"

namespace plait {

void add_weight_gradient(const Tensor& grad_y_TO, const Tensor& x_TI, Parameter& weight_OI) {
  bool accumulate = true;
  Tensor& grad = weight_OI.grad_to_write(accumulate);
  linear_backward_weight(grad_y_TO, x_TI, grad, accumulate);
}

LayerParams find_layer_params(const ParameterStore& store, int64_t layer, int chunk) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  const auto find = [&](const std::string& name) { return store.find(name, chunk); };
  const auto fused = [&](const std::string& base, const std::vector<std::string>& parts,
                         const std::string& suffix) {
    std::vector<std::string> names;
    for (const std::string& part : parts) {
      names.push_back(base + part + suffix);
    }
    return store.find_fused(names, chunk);
  };
  const std::vector<std::string> qkv = {"q_proj", "k_proj", "v_proj"};
  const std::vector<std::string> gate_up = {"gate_proj", "up_proj"};
  LayerParams params;
  params.norm1 = find(prefix + "input_layernorm.weight");
  params.qkv = fused(attention, qkv, ".weight");
  params.qkv_bias = fused(attention, qkv, ".bias");
  params.q_norm = find(attention + "q_norm.weight");
  params.k_norm = find(attention + "k_norm.weight");
  params.o = find(attention + "o_proj.weight");
  params.o_bias = find(attention + "o_proj.bias");
  params.norm2 = find(prefix + "post_attention_layernorm.weight");
  params.gate_up = fused(mlp, gate_up, ".weight");
  params.gate_up_bias = fused(mlp, gate_up, ".bias");
  params.down = find(mlp + "down_proj.weight");
  params.down_bias = find(mlp + "down_proj.bias");
  CHECK(params.norm1 && params.qkv && params.o && params.norm2 && params.gate_up && params.down);
  return params;
}

TransformerLayer::TransformerLayer(const ModelConfig& config, const Layout& layout,
                                   const LayerShape& shape, LayerParams params,
                                   const RopeTable& rope, const TensorRegion& region)
    : config_(config),
      full_recompute_(layout.recompute == Recompute::kFull),
      table_(layer_saved_tensors(config, layout, {.tokens = shape.tokens, .dtype = shape.dtype})),
      shape_(shape),
      q_cols_(config.num_heads * config.head_dim / layout.tp),
      kv_cols_(config.num_kv_heads * config.head_dim / layout.tp),
      params_(std::move(params)),
      rope_(rope),
      region_(region) {}

Tensor TransformerLayer::make(Saved id, MemoryCategory category) const {
  for (const SavedTensor& entry : table_) {
    if (entry.id == id) {
      return Tensor(params_.qkv.weight.device(), entry.shape, entry.dtype, category);
    }
  }
  CHECK(false);
  return {};
}

void TransformerLayer::allocate(SavedTensors& saved) const {
  for (const SavedTensor& entry : table_) {
    if (!saved[entry.id]) {
      saved[entry.id] =
          make(entry.id, entry.kept ? MemoryCategory::kActivations : MemoryCategory::kWorkspace);
    }
  }
}

void TransformerLayer::drop_unkept(SavedTensors& saved) const {
  for (const SavedTensor& entry : table_) {
    if (!entry.kept) {
      saved[entry.id] = Tensor();
    }
  }
}

void TransformerLayer::norm(Saved x, Saved rstd, Saved y, const Parameter& weight,
                            SavedTensors& saved) const {
  rms_norm_forward(columns(saved[x]), weight.weight, static_cast<float>(config_.rms_norm_eps),
                   saved[rstd], columns(saved[y]));
}

QkvColumns TransformerLayer::qkv_columns(const SavedTensors& saved) const {
  const Tensor& qkv = saved[Saved::kQkv];
  const Tensor& qk = config_.qk_norm ? saved[Saved::kRotated] : qkv;
  return {columns(qk, 0, q_cols_), columns(qk, q_cols_, kv_cols_),
          columns(qkv, q_cols_ + kv_cols_, kv_cols_)};
}

void TransformerLayer::qk_norm_and_rope(SavedTensors& saved) const {
  const QkvColumns rotated = qkv_columns(saved);
  if (config_.qk_norm) {
    const Tensor& qkv = saved[Saved::kQkv];
    const auto eps = static_cast<float>(config_.rms_norm_eps);
    rms_norm_forward(columns(qkv, 0, q_cols_), params_.q_norm.weight, eps, saved[Saved::kQRstd],
                     rotated.q);
    rms_norm_forward(columns(qkv, q_cols_, kv_cols_), params_.k_norm.weight, eps,
                     saved[Saved::kKRstd], rotated.k);
  }
  const RopeOptions options{.seq_len = shape_.seq_len, .head_dim = config_.head_dim};
  rope(rotated.q, rope_, options);
  rope(rotated.k, rope_, options);
}

void TransformerLayer::compute_saved(SavedTensors& saved) const {
  norm(Saved::kInput, Saved::kNorm1Rstd, Saved::kNorm1, params_.norm1, saved);
  linear_forward(region_.enter_forward(saved[Saved::kNorm1]), params_.qkv.weight,
                 params_.qkv_bias.weight, saved[Saved::kQkv]);
  qk_norm_and_rope(saved);
  const AttentionShape attention{.seq_len = shape_.seq_len, .head_dim = config_.head_dim};
  attention_forward(qkv_columns(saved), attention, saved[Saved::kAttention], saved[Saved::kLse]);
  add_attention_output(saved);

  norm(Saved::kMid, Saved::kNorm2Rstd, Saved::kNorm2, params_.norm2, saved);
  linear_forward(region_.enter_forward(saved[Saved::kNorm2]), params_.gate_up.weight,
                 params_.gate_up_bias.weight, saved[Saved::kGateUp]);
  swiglu_forward(saved[Saved::kGateUp], saved[Saved::kSwiglu]);
}

void TransformerLayer::add_attention_output(SavedTensors& saved) const {
  Tensor partial_TD(params_.o.weight.device(), {shape_.tokens, config_.hidden_size}, shape_.dtype,
                    MemoryCategory::kWorkspace);
  linear_forward(saved[Saved::kAttention], params_.o.weight, {}, partial_TD);
  Tensor attention_TsD = region_.leave_forward(std::move(partial_TD), MemoryCategory::kWorkspace);
  add_bias(attention_TsD, params_.o_bias.weight);
  add(saved[Saved::kInput], attention_TsD, saved[Saved::kMid]);
}

Tensor TransformerLayer::compute_output(const SavedTensors& saved) const {
  Tensor partial_TD(params_.down.weight.device(), {shape_.tokens, config_.hidden_size},
                    shape_.dtype, region_.partial_category());
  linear_forward(saved[Saved::kSwiglu], params_.down.weight, {}, partial_TD);
  Tensor out_TsD = region_.leave_forward(std::move(partial_TD));
  add_bias(out_TsD, params_.down_bias.weight);
  add(saved[Saved::kMid], out_TsD, out_TsD);
  return out_TsD;
}

Tensor TransformerLayer::forward(const Tensor& x_TsD, SavedTensors* saved) const {
  SavedTensors local;
  SavedTensors& tensors = saved != nullptr ? *saved : local;
  tensors[Saved::kInput] = x_TsD;
  allocate(tensors);
  compute_saved(tensors);
  Tensor out = compute_output(tensors);
  drop_unkept(tensors);
  return out;
}

void TransformerLayer::restore(SavedTensors& saved) const {
  allocate(saved);
  if (full_recompute_) {
    compute_saved(saved);
    return;
  }
  norm(Saved::kInput, Saved::kNorm1Rstd, Saved::kNorm1, params_.norm1, saved);
  if (config_.qk_norm) {
    qk_norm_and_rope(saved);
  }
  norm(Saved::kMid, Saved::kNorm2Rstd, Saved::kNorm2, params_.norm2, saved);
  swiglu_forward(saved[Saved::kGateUp], saved[Saved::kSwiglu]);
}

Tensor TransformerLayer::backward_mlp(const Tensor& grad_TsD, SavedTensors& saved) {
  Device& device = grad_TsD.device();
  linear_backward_bias(grad_TsD, params_.down_bias.grad_to_add());
  const Tensor grad_TD = region_.leave_backward(grad_TsD);
  Tensor& swiglu = saved[Saved::kSwiglu];
  add_weight_gradient(grad_TD, swiglu, params_.down);
  // The product's input is not needed any more: its gradient takes its place.
  linear_backward_input(grad_TD, params_.down.weight, swiglu);
  Tensor& gate_up = saved[Saved::kGateUp];
  swiglu_backward(gate_up, swiglu, gate_up);
  linear_backward_bias(gate_up, params_.gate_up_bias.grad_to_add());
  add_weight_gradient(gate_up, region_.enter_forward(saved[Saved::kNorm2]), params_.gate_up);
  Tensor grad_norm_TD(device, {shape_.tokens, config_.hidden_size}, shape_.dtype,
                      MemoryCategory::kWorkspace);
  linear_backward_input(gate_up, params_.gate_up.weight, grad_norm_TD);
  return region_.enter_backward(std::move(grad_norm_TD));
}

void TransformerLayer::backward_qk(SavedTensors& saved, Tensor& grad_qkv) {
  const Columns grad_q = columns(grad_qkv, 0, q_cols_);
  const Columns grad_k = columns(grad_qkv, q_cols_, kv_cols_);
  const RopeOptions options{
      .seq_len = shape_.seq_len, .head_dim = config_.head_dim, .inverse = true};
  rope(grad_q, rope_, options);
  rope(grad_k, rope_, options);
  if (!config_.qk_norm) {
    return;
  }
  const Tensor& qkv = saved[Saved::kQkv];
  rms_norm_backward({.x = columns(qkv, 0, q_cols_), .grad_y = grad_q, .grad_x = grad_q},
                    params_.q_norm.weight, saved[Saved::kQRstd], params_.q_norm.grad_to_add());
  rms_norm_backward({.x = columns(qkv, q_cols_, kv_cols_), .grad_y = grad_k, .grad_x = grad_k},
                    params_.k_norm.weight, saved[Saved::kKRstd], params_.k_norm.grad_to_add());
}

Tensor TransformerLayer::backward_attention(const Tensor& grad_TsD, SavedTensors& saved) {
  Device& device = grad_TsD.device();
  linear_backward_bias(grad_TsD, params_.o_bias.grad_to_add());
  const Tensor grad_TD = region_.leave_backward(grad_TsD);
  add_weight_gradient(grad_TD, saved[Saved::kAttention], params_.o);
  Tensor grad_attention(device, {shape_.tokens, q_cols_}, shape_.dtype, MemoryCategory::kWorkspace);
  linear_backward_input(grad_TD, params_.o.weight, grad_attention);

  Tensor grad_qkv(device, saved[Saved::kQkv].shape(), shape_.dtype, MemoryCategory::kWorkspace);
  Tensor scratch(device, saved[Saved::kLse].shape(), DType::kF32, MemoryCategory::kWorkspace);
  const QkvColumns grad{columns(grad_qkv, 0, q_cols_), columns(grad_qkv, q_cols_, kv_cols_),
                        columns(grad_qkv, q_cols_ + kv_cols_, kv_cols_)};
  attention_backward({qkv_columns(saved), saved[Saved::kAttention], saved[Saved::kLse]},
                     {.seq_len = shape_.seq_len, .head_dim = config_.head_dim}, grad_attention,
                     grad, scratch);
  backward_qk(saved, grad_qkv);

  linear_backward_bias(grad_qkv, params_.qkv_bias.grad_to_add());
  add_weight_gradient(grad_qkv, region_.enter_forward(saved[Saved::kNorm1]), params_.qkv);
  Tensor grad_norm_TD(device, {shape_.tokens, config_.hidden_size}, shape_.dtype,
                      MemoryCategory::kWorkspace);
  linear_backward_input(grad_qkv, params_.qkv.weight, grad_norm_TD);
  return region_.enter_backward(std::move(grad_norm_TD));
}

Tensor TransformerLayer::backward(Tensor grad_TsD, SavedTensors& saved) {
  restore(saved);
  const auto through_norm = [&](const Tensor& grad_norm, Saved x, Saved rstd, Parameter& weight) {
    rms_norm_backward({.x = columns(saved[x]),
                       .grad_y = columns(grad_norm),
                       .grad_x = columns(grad_TsD),
                       .accumulate = true},
                      weight.weight, saved[rstd], weight.grad_to_add());
  };
  through_norm(backward_mlp(grad_TsD, saved), Saved::kMid, Saved::kNorm2Rstd, params_.norm2);
  through_norm(backward_attention(grad_TsD, saved), Saved::kInput, Saved::kNorm1Rstd,
               params_.norm1);
  saved = SavedTensors();
  return grad_TsD;
}

}  // namespace plait
