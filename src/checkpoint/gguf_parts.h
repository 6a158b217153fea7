// What the files that read and write GGUF share. Internal to checkpoint/ and its tests.
#pragma once

#include <string>

#include "checkpoint/gguf.h"
#include "spec/model_config.h"
#include "text/tokenizer_spec.h"

namespace plait {

// Types of metadata values, with the numbers that stand in files.
namespace gguf {
enum ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kText,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};
}  // namespace gguf

// Errors: as open_gguf_weights.
ModelConfig gguf_config(const GgufView& gguf);
TokenizerSpec gguf_tokenizer(const GgufView& gguf);

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight"; empty for a name that no
// llama-like model has.
std::string gguf_tensor_name(const std::string& hf_name);

// `llama` files keep each head's rows of q_proj and k_proj with the two halves of rotary pairs
// interleaved; HF has one half behind the other. The file's row of HF's row `row`.
int64_t gguf_interleaved_row(int64_t row, int64_t head_dim);
// Whether that holds for this parameter.
bool gguf_is_interleaved(const std::string& hf_name, const ModelConfig& config);

}  // namespace plait
