#include "model/transformer.h"

#include <cmath>

#include "base/error.h"
#include "model/rope.h"
#include "op/elementwise.h"
#include "op/linear.h"
#include "op/norm.h"

namespace plait {

Transformer::Transformer(const ModelConfig& config, const ParallelContext& context,
                         const TransformerShape& shape, ParameterStore& store)
    : config_(config),
      shape_(shape),
      region_(context.tp(), context.layout().sp),
      embedding_(context.tp(), region_),
      cross_entropy_(context.tp(), config.vocab_size),
      store_(store),
      rope_(make_rope_table(context.device(), config, shape.seq_len)) {
  const Layout& layout = context.layout();
  const std::vector<LayerRange> ranges = split_layers(layout, config.num_layers);
  const LayerShape layer_shape{shape.tokens(), shape.seq_len, shape.dtype};
  for (int c = 0; c < layout.vpp; ++c) {
    const int virtual_stage = c * layout.pp + context.coordinate(Axis::kPp);
    Chunk chunk;
    chunk.range = ranges[static_cast<size_t>(virtual_stage)];
    chunk.first = virtual_stage == 0;
    chunk.last = virtual_stage == layout.num_virtual_stages() - 1;
    for (int64_t layer = chunk.range.begin; layer < chunk.range.end; ++layer) {
      chunk.layers.emplace_back(config, layout, layer_shape, find_layer_params(store, layer, c),
                                rope_, region_);
    }
    const Parameter table = store.find("model.embed_tokens.weight", c);
    if (chunk.first) {
      embedding_param_ = table;
    }
    if (chunk.last) {
      final_norm_ = store.find("model.norm.weight", c);
      head_ = config.tie_word_embeddings ? table : store.find("lm_head.weight", c);
      CHECK(final_norm_ && head_);
    }
    chunks_.push_back(std::move(chunk));
  }
  loss_ = Tensor(context.device(), {1}, DType::kF32, MemoryCategory::kWorkspace);
}

void Transformer::set_batch(std::span<const MicroBatch> batch, float grad_scale) {
  Device& device = store_.device();
  grad_scale_ = grad_scale;
  const auto upload = [&](const std::vector<int32_t>& values) {
    CHECK_EQ(static_cast<int64_t>(values.size()), shape_.tokens());
    Tensor tensor(device, {shape_.tokens()}, DType::kI32, MemoryCategory::kActivations);
    device.stream().copy_to_device(tensor.ptr(), values.data(), tensor.bytes());
    return tensor;
  };
  tokens_.clear();
  targets_.clear();
  for (const MicroBatch& microbatch : batch) {
    if (chunks_.front().first) {
      tokens_.push_back(upload(microbatch.tokens));
    }
    if (chunks_.back().last) {
      targets_.push_back(upload(microbatch.targets));
    }
  }
  for (Chunk& chunk : chunks_) {
    chunk.in_flight.clear();
    chunk.in_flight.resize(batch.size());
  }
  device.stream().zero(loss_.ptr(), loss_.bytes());
}

double Transformer::loss_sum() {
  float value = 0;
  Stream& stream = store_.device().stream();
  stream.copy_to_host(&value, loss_.ptr(), sizeof(value));
  stream.synchronize();
  return value;
}

Tensor Transformer::run_head(int microbatch, const Tensor& hidden_TsD) {
  Device& device = store_.device();
  const auto make = [&](std::vector<int64_t> shape, DType dtype) {
    return Tensor(device, std::move(shape), dtype, MemoryCategory::kWorkspace);
  };
  Tensor rstd = make({hidden_TsD.dim(0)}, DType::kF32);
  Tensor normed = make(hidden_TsD.shape(), shape_.dtype);
  rms_norm_forward(columns(hidden_TsD), final_norm_.weight,
                   static_cast<float>(config_.rms_norm_eps), rstd, columns(normed));
  const Tensor normed_TD = region_.enter_forward(normed);
  Tensor logits = make({shape_.tokens(), head_.weight.dim(0)}, shape_.dtype);
  linear_forward(normed_TD, head_.weight, {}, logits);
  if (logits_hook_) {
    logits_hook_(microbatch, logits);
  }
  if (output_hook_) {
    output_hook_(config_.num_layers, logits);
  }
  cross_entropy_.run(logits, targets_[static_cast<size_t>(microbatch)], grad_scale_, loss_);
  if (grad_scale_ == 0) {
    return {};
  }
  add_weight_gradient(logits, normed_TD, head_);
  Tensor grad_normed_TD = make({shape_.tokens(), config_.hidden_size}, shape_.dtype);
  linear_backward_input(logits, head_.weight, grad_normed_TD);
  const Tensor grad_normed = region_.enter_backward(std::move(grad_normed_TD));
  Tensor grad_hidden(device, hidden_TsD.shape(), shape_.dtype, MemoryCategory::kActivations);
  rms_norm_backward(
      {.x = columns(hidden_TsD), .grad_y = columns(grad_normed), .grad_x = columns(grad_hidden)},
      final_norm_.weight, rstd, final_norm_.grad_to_add());
  return grad_hidden;
}

bool Transformer::is_finite(const Tensor& tensor) {
  Device& device = tensor.device();
  Tensor values = tensor;
  if (tensor.dtype() != DType::kF32) {
    values = Tensor(device, tensor.shape(), DType::kF32, MemoryCategory::kWorkspace);
    cast(tensor, values);
  }
  Tensor sum(device, {1}, DType::kF32, MemoryCategory::kWorkspace);
  device.stream().zero(sum.ptr(), sum.bytes());
  // The weight keeps squares of large finite values from overflowing.
  device.kernels().sum_squares(
      device.stream(),
      {.x = values.ptr(), .out = sum.ptr(), .count = values.count(), .weight = 1e-30F});
  float value = 0;
  device.stream().copy_to_host(&value, sum.ptr(), sizeof(value));
  device.stream().synchronize();
  return std::isfinite(value);
}

Tensor Transformer::forward(int chunk_index, int microbatch, const Tensor& input) {
  Chunk& chunk = chunks_[static_cast<size_t>(chunk_index)];
  InFlight& in_flight = chunk.in_flight[static_cast<size_t>(microbatch)];
  const auto before_unit = [&](int64_t unit) {
    if (hooks_.before_unit) {
      hooks_.before_unit(chunk_index, unit);
    }
  };
  before_unit(-1);
  Tensor hidden = chunk.first ? embedding_.forward(tokens_[static_cast<size_t>(microbatch)],
                                                   embedding_param_.weight)
                              : input;
  const auto show_output = [&](int64_t unit) {
    if (output_hook_) {
      output_hook_(unit, hidden);
    }
  };
  if (chunk.first) {
    show_output(-1);
  }
  const bool training = grad_scale_ != 0;
  if (training) {
    in_flight.layers.resize(chunk.layers.size());
  }
  for (size_t i = 0; i < chunk.layers.size(); ++i) {
    before_unit(chunk.range.begin + static_cast<int64_t>(i));
    hidden = chunk.layers[i].forward(hidden, training ? &in_flight.layers[i] : nullptr);
    show_output(chunk.range.begin + static_cast<int64_t>(i));
  }
  if (!chunk.last) {
    return hidden;
  }
  before_unit(config_.num_layers);
  in_flight.grad_hidden = run_head(microbatch, hidden);
  return {};
}

Tensor Transformer::backward(int chunk_index, int microbatch, const Tensor& grad_output,
                             bool last) {
  Chunk& chunk = chunks_[static_cast<size_t>(chunk_index)];
  InFlight& in_flight = chunk.in_flight[static_cast<size_t>(microbatch)];
  const auto complete = [&](int64_t unit) {
    if (last && hooks_.unit_complete) {
      hooks_.unit_complete(chunk_index, unit);
    }
  };
  Tensor grad = grad_output;
  if (chunk.last) {
    grad = std::move(in_flight.grad_hidden);
  }
  in_flight.grad_hidden = Tensor();
  if (chunk.last) {
    complete(config_.num_layers);
  }
  for (size_t i = chunk.layers.size(); i-- > 0;) {
    grad = chunk.layers[i].backward(std::move(grad), in_flight.layers[i]);
    complete(chunk.range.begin + static_cast<int64_t>(i));
  }
  if (!chunk.first) {
    return grad;
  }
  embedding_.backward(tokens_[static_cast<size_t>(microbatch)], grad,
                      embedding_param_.grad_to_add());
  return {};
}

void Transformer::reduce(int chunk) {
  if (hooks_.chunk_complete) {
    hooks_.chunk_complete(chunk);
  }
}

}  // namespace plait
