// A model from a GGUF file: configuration, weights, tokenizer.
#pragma once

#include <string>
#include <vector>

#include "parallel/parameter_store.h"
#include "spec/model_config.h"
#include "text/tokenizer_spec.h"

namespace plait {

struct GgufImport {
  ModelConfig config;
  // As HfImport::source: thread-safe, keeps the file mapped, reads the requested rectangles only.
  // Every block format becomes f32 exactly as it is defined; the rows of q_proj and k_proj of
  // `llama` files are put back in HF's order.
  ParameterStore::ShardSource source;
  DType matrix_dtype = DType::kBF16;  // bf16 if all matrices are, else f32
  std::vector<std::string> unused;    // tensors that the model does not use
  // Of the tensor data in the file, for the load message.
  int64_t tensor_bytes = 0;
};

// `path` names the file. Checks that every parameter is there in its shape and in a type that is
// known before anything is read. Errors: kNotFound, kCorruptData, kNotImplemented (architecture,
// rope scaling, tensor type), naming file, tensor or key and, where there is one, the offset.
GgufImport open_gguf_weights(const std::string& path);

// Architectures llama, qwen2 and qwen3. Errors: as above.
ModelConfig read_gguf_config(const std::string& path);

// tokenizer.ggml.model gpt2 with pre smollm, qwen2, llama-bpe or gpt-2; others are refused with
// kNotImplemented (SentencePiece among them).
TokenizerSpec read_gguf_tokenizer(const std::string& path);

// Whether the file starts with "GGUF".
bool is_gguf_file(const std::string& path);

}  // namespace plait
