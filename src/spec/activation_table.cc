#include "spec/activation_table.h"

namespace plait {

int64_t SavedTensor::bytes() const {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    count *= dim;
  }
  return count * dtype_size(dtype);
}

std::vector<SavedTensor> layer_saved_tensors(const ModelConfig& config, const Layout& layout,
                                             const ActivationShape& shape) {
  const int64_t tokens = shape.tokens;
  const int64_t local_tokens = layout.sp ? tokens / layout.tp : tokens;
  const int64_t heads = config.num_heads / layout.tp;
  const int64_t kv_heads = config.num_kv_heads / layout.tp;
  const int64_t ffn = config.ffn_hidden_size / layout.tp;
  const bool none = layout.recompute == Recompute::kNone;
  const bool not_full = layout.recompute != Recompute::kFull;
  const DType dtype = shape.dtype;
  const DType f32 = DType::kF32;
  std::vector<SavedTensor> tensors = {
      {Saved::kInput, {local_tokens, config.hidden_size}, dtype, true},
      {Saved::kNorm1Rstd, {local_tokens}, f32, not_full},
      {Saved::kNorm1, {local_tokens, config.hidden_size}, dtype, none},
      {Saved::kQkv, {tokens, (heads + 2 * kv_heads) * config.head_dim}, dtype, not_full},
      {Saved::kAttention, {tokens, heads * config.head_dim}, dtype, not_full},
      {Saved::kLse, {heads, tokens}, f32, not_full},
      {Saved::kMid, {local_tokens, config.hidden_size}, dtype, not_full},
      {Saved::kNorm2Rstd, {local_tokens}, f32, not_full},
      {Saved::kNorm2, {local_tokens, config.hidden_size}, dtype, none},
      {Saved::kGateUp, {tokens, 2 * ffn}, dtype, not_full},
      {Saved::kSwiglu, {tokens, ffn}, dtype, none},
  };
  if (config.qk_norm) {
    tensors.push_back({Saved::kQRstd, {tokens, heads}, f32, not_full});
    tensors.push_back({Saved::kKRstd, {tokens, kv_heads}, f32, not_full});
    tensors.push_back(
        {Saved::kRotated, {tokens, (heads + kv_heads) * config.head_dim}, dtype, none});
  }
  return tensors;
}

int64_t layer_saved_bytes(const ModelConfig& config, const Layout& layout,
                          const ActivationShape& shape) {
  int64_t bytes = 0;
  for (const SavedTensor& tensor : layer_saved_tensors(config, layout, shape)) {
    bytes += tensor.kept ? tensor.bytes() : 0;
  }
  return bytes;
}

}  // namespace plait
