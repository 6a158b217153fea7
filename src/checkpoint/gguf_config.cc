// From a GGUF file's metadata to a ModelConfig.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_import.h"
#include "checkpoint/gguf_parts.h"

namespace plait {
namespace {

ModelFamily family_of(const GgufView& gguf) {
  const std::string name = gguf.required_text("general.architecture");
  if (name == "llama") {
    return ModelFamily::kLlama;
  }
  if (name == "qwen2") {
    return ModelFamily::kQwen2;
  }
  if (name == "qwen3") {
    return ModelFamily::kQwen3;
  }
  throw_error(ErrorCode::kNotImplemented,
              "{}: the architecture '{}' is not implemented; llama, qwen2 and qwen3 are",
              gguf.file(), name);
}

// An integer, or a list of one value for every layer.
int64_t same_in_all_layers(const GgufView& gguf, const std::string& key, int64_t absent) {
  const std::optional<std::vector<int64_t>> values = gguf.integers(key);
  if (!values) {
    return absent;
  }
  if (values->empty() ||
      std::ranges::any_of(*values, [&](int64_t value) { return value != values->front(); })) {
    throw_error(ErrorCode::kNotImplemented,
                "{}: {} differs between layers, which is not implemented", gguf.file(), key);
  }
  return values->front();
}

// The factors by which Llama 3.1 divides the frequencies (HF modeling_rope_utils,
// _compute_llama3_parameters).
std::vector<double> llama3_factors(const RopeConfig& rope, int64_t head_dim) {
  std::vector<double> factors;
  const auto length = static_cast<double>(rope.original_max_position_embeddings);
  for (int64_t i = 0; i < head_dim; i += 2) {
    const double wavelength =
        2 * std::numbers::pi *
        std::pow(rope.theta, static_cast<double>(i) / static_cast<double>(head_dim));
    const double smooth = std::clamp((length / wavelength - rope.low_freq_factor) /
                                         (rope.high_freq_factor - rope.low_freq_factor),
                                     0.0, 1.0);
    factors.push_back(1 / ((1 - smooth) / rope.factor + smooth));
  }
  return factors;
}

// Converters keep llama3 scaling as a tensor of factors alone. Its parameters are those of all
// published models, apart from the factor, and must give that very tensor.
void read_rope_factors(const GgufView& gguf, const GgufTensor& tensor, ModelConfig& config) {
  static constexpr double kTolerance = 1e-4;
  std::vector<float> stored(static_cast<size_t>(tensor.count()));
  if (tensor.shape.size() != 1 || std::ssize(stored) != config.head_dim / 2) {
    throw_error(ErrorCode::kCorruptData, "{}: byte {}: rope_freqs.weight needs {} elements",
                gguf.file(), tensor.file_offset, config.head_dim / 2);
  }
  copy_row_as_f32(tensor, {}, stored);
  config.rope.type = RopeType::kLlama3;
  config.rope.factor = std::ranges::max(stored);
  config.rope.low_freq_factor = 1;
  config.rope.high_freq_factor = 4;
  config.rope.original_max_position_embeddings = 8192;
  const std::vector<double> expected = llama3_factors(config.rope, config.head_dim);
  for (size_t i = 0; i < stored.size(); ++i) {
    if (!(std::abs(stored[i] - expected[i]) <= kTolerance * expected[i])) {
      throw_error(ErrorCode::kNotImplemented,
                  "{}: byte {}: rope_freqs.weight[{}] is {}, llama3 scaling by {} would give {}; "
                  "other factors are not implemented",
                  gguf.file(), tensor.file_offset, i, stored[i], config.rope.factor, expected[i]);
    }
  }
}

void read_rope(const GgufView& gguf, const std::string& prefix, ModelConfig& config) {
  config.rope.theta = gguf.number(prefix + "rope.freq_base").value_or(10000.0);
  const int64_t rotated = gguf.integer(prefix + "rope.dimension_count").value_or(config.head_dim);
  if (rotated != config.head_dim) {
    throw_error(ErrorCode::kNotImplemented,
                "{}: {}rope.dimension_count is {}, heads have {} elements; a partial rope is not "
                "implemented",
                gguf.file(), prefix, rotated, config.head_dim);
  }
  const std::string scaling = gguf.text(prefix + "rope.scaling.type").value_or("none");
  const double linear = gguf.number(prefix + "rope.scale_linear").value_or(1);
  if (scaling == "linear" || linear != 1) {
    config.rope.type = RopeType::kLinear;
    config.rope.factor = gguf.number(prefix + "rope.scaling.factor").value_or(linear);
  } else if (scaling == "yarn") {
    config.rope.type = RopeType::kYarn;
    config.rope.factor = gguf.number(prefix + "rope.scaling.factor").value_or(1);
  } else if (scaling != "none") {
    throw_error(ErrorCode::kNotImplemented, "{}: {}rope.scaling.type '{}' is not implemented",
                gguf.file(), prefix, scaling);
  }
  if (const GgufTensor* factors = gguf.find("rope_freqs.weight")) {
    read_rope_factors(gguf, *factors, config);
  }
}

void refuse_unsupported(const GgufView& gguf, const std::string& prefix,
                        const ModelConfig& config) {
  if (gguf.integer(prefix + "expert_count").value_or(0) > 0) {
    throw_error(ErrorCode::kNotImplemented, "{}: {}expert_count: experts are not implemented",
                gguf.file(), prefix);
  }
  const int64_t window = gguf.integer(prefix + "attention.sliding_window").value_or(0);
  if (window > 0 && window < config.max_position_embeddings) {
    throw_error(ErrorCode::kNotImplemented, "{}: {}attention.sliding_window {} is not implemented",
                gguf.file(), prefix, window);
  }
  const int64_t value_length =
      gguf.integer(prefix + "attention.value_length").value_or(config.head_dim);
  if (value_length != config.head_dim) {
    throw_error(ErrorCode::kNotImplemented,
                "{}: {}attention.value_length {} other than key_length {} is not implemented",
                gguf.file(), prefix, value_length, config.head_dim);
  }
}

}  // namespace

ModelConfig gguf_config(const GgufView& gguf) {
  ModelConfig config;
  config.family = family_of(gguf);
  const std::string prefix = gguf.required_text("general.architecture") + ".";
  const GgufTensor& embedding = gguf.at("token_embd.weight");
  config.vocab_size = embedding.shape.front();
  config.hidden_size = gguf.required_integer(prefix + "embedding_length");
  config.ffn_hidden_size = same_in_all_layers(gguf, prefix + "feed_forward_length", 0);
  config.num_layers = gguf.required_integer(prefix + "block_count");
  config.num_heads = same_in_all_layers(gguf, prefix + "attention.head_count", 0);
  config.num_kv_heads =
      same_in_all_layers(gguf, prefix + "attention.head_count_kv", config.num_heads);
  config.max_position_embeddings = gguf.required_integer(prefix + "context_length");
  config.rms_norm_eps =
      gguf.number(prefix + "attention.layer_norm_rms_epsilon").value_or(config.rms_norm_eps);
  const int64_t plain_head_dim = config.num_heads > 0 ? config.hidden_size / config.num_heads : 0;
  config.head_dim = gguf.integer(prefix + "attention.key_length").value_or(plain_head_dim);
  config.tie_word_embeddings = gguf.find("output.weight") == nullptr;
  config.qk_norm = config.family == ModelFamily::kQwen3;
  config.qkv_bias = gguf.find("blk.0.attn_q.bias") != nullptr;
  config.o_bias = gguf.find("blk.0.attn_output.bias") != nullptr;
  config.mlp_bias = gguf.find("blk.0.ffn_gate.bias") != nullptr;
  config.bos_token_id = gguf.integer("tokenizer.ggml.bos_token_id").value_or(-1);
  config.eos_token_id = gguf.integer("tokenizer.ggml.eos_token_id").value_or(-1);
  check_model_config(config, gguf.file());
  read_rope(gguf, prefix, config);
  refuse_unsupported(gguf, prefix, config);
  return config;
}

ModelConfig read_gguf_config(const std::string& path) {
  const GgufFile file(path);
  return gguf_config(file.view());
}

}  // namespace plait
