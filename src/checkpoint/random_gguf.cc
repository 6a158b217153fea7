#include <filesystem>
#include <utility>

#include "base/error.h"
#include "checkpoint/gguf_parts.h"
#include "checkpoint/gguf_writer.h"
#include "checkpoint/random_parts.h"

namespace plait {
namespace {

// general.file_type, as other programs show it.
constexpr uint32_t kAllF32 = 0;
constexpr uint32_t kMostlyBf16 = 32;

enum TokenType : int32_t { kNormal = 1, kControl = 3, kUnused = 5 };

const char* architecture(const ModelConfig& config) {
  switch (config.family) {
    case ModelFamily::kLlama:
      return "llama";
    case ModelFamily::kQwen2:
      return "qwen2";
    case ModelFamily::kQwen3:
      return "qwen3";
    default:
      throw_error(ErrorCode::kNotImplemented,
                  "make-model: GGUF for this family is not implemented; try --format safetensors");
  }
}

void add_tokenizer(const ModelConfig& config, GgufMetadata& metadata) {
  std::vector<std::string> tokens = byte_characters();
  std::vector<int32_t> types(tokens.size(), kNormal);
  for (const char* mark : kMarks) {
    tokens.emplace_back(mark);
    types.push_back(kControl);
  }
  while (std::ssize(tokens) < config.vocab_size) {
    tokens.push_back(fmt::format("[PAD{}]", tokens.size()));
    types.push_back(kUnused);
  }
  metadata.text("tokenizer.ggml.model", "gpt2");
  metadata.text("tokenizer.ggml.pre", "gpt-2");
  metadata.texts("tokenizer.ggml.tokens", tokens);
  metadata.integers("tokenizer.ggml.token_type", types);
  metadata.texts("tokenizer.ggml.merges", {});
  metadata.integer("tokenizer.ggml.bos_token_id", kEndOfText);
  metadata.integer("tokenizer.ggml.eos_token_id", kEndOfTurn);
  metadata.integer("tokenizer.ggml.padding_token_id", kEndOfText);
  metadata.flag("tokenizer.ggml.add_bos_token", false);
  metadata.text("tokenizer.chat_template", kRandomModelTemplate);
}

GgufMetadata metadata_of(const ModelConfig& config, DType dtype) {
  const auto count = [](int64_t value) { return static_cast<uint32_t>(value); };
  GgufMetadata metadata;
  const std::string arch = architecture(config);
  metadata.text("general.architecture", arch);
  metadata.text("general.name", "random weights");
  metadata.integer("general.file_type", dtype == DType::kBF16 ? kMostlyBf16 : kAllF32);
  metadata.integer(arch + ".block_count", count(config.num_layers));
  metadata.integer(arch + ".context_length", count(config.max_position_embeddings));
  metadata.integer(arch + ".embedding_length", count(config.hidden_size));
  metadata.integer(arch + ".feed_forward_length", count(config.ffn_hidden_size));
  metadata.integer(arch + ".attention.head_count", count(config.num_heads));
  metadata.integer(arch + ".attention.head_count_kv", count(config.num_kv_heads));
  metadata.integer(arch + ".attention.key_length", count(config.head_dim));
  metadata.integer(arch + ".attention.value_length", count(config.head_dim));
  metadata.integer(arch + ".rope.dimension_count", count(config.head_dim));
  metadata.integer(arch + ".vocab_size", count(config.vocab_size));
  metadata.number(arch + ".attention.layer_norm_rms_epsilon",
                  static_cast<float>(config.rms_norm_eps));
  metadata.number(arch + ".rope.freq_base", static_cast<float>(config.rope.theta));
  add_tokenizer(config, metadata);
  return metadata;
}

// HF's row that the file has at `place`; the inverse of gguf_interleaved_row.
int64_t row_at(int64_t place, int64_t head_dim) {
  const int64_t inside = place % head_dim;
  return place / head_dim * head_dim + inside % 2 * (head_dim / 2) + inside / 2;
}

template <typename T>
void write_tensor(const ParamSpec& spec, int64_t interleaved_head_dim, const FastNormal& normal,
                  GgufWriter& writer) {
  const bool interleaved = interleaved_head_dim > 0;
  const int64_t step = interleaved ? 1 : rows_at_a_time(spec);
  for (int64_t place = 0; place < spec.shape[0]; place += step) {
    const int64_t row = interleaved ? row_at(place, interleaved_head_dim) : place;
    const std::vector<T> values = random_rows<T>(
        spec, {.row_begin = row, .rows = std::min(step, spec.shape[0] - place)}, normal);
    writer.write(std::as_bytes(std::span<const T>(values)));
  }
}

}  // namespace

void write_random_gguf(const ModelConfig& given, const std::string& path,
                       const RandomModelOptions& options) {
  const ModelConfig config = random_model_config(given);
  if (config.rope.type != RopeType::kDefault) {
    throw_error(ErrorCode::kNotImplemented,
                "make-model: GGUF with a scaled rope is not implemented; try --format safetensors");
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) {
    std::filesystem::create_directories(folder, error);
  }
  if (error) {
    throw_error(ErrorCode::kIo, "cannot make the folder '{}': {}", folder.string(),
                error.message());
  }
  const std::vector<ParamSpec> table = make_parameter_table(config, {});
  const bool bf16 = options.dtype == DType::kBF16;
  std::vector<GgufDecl> tensors;
  int64_t all = 0;
  for (const ParamSpec& spec : table) {
    const bool matrix = spec.shape.size() > 1;
    tensors.push_back({.name = gguf_tensor_name(spec.name),
                       .type = matrix && bf16 ? GgufType::kBF16 : GgufType::kF32,
                       .shape = spec.shape});
    all += tensors.back().bytes();
  }
  const FastNormal normal(options.seed, config.initializer_range);
  GgufWriter writer(path, metadata_of(config, options.dtype), tensors);
  int64_t done = 0;
  for (size_t i = 0; i < table.size(); ++i) {
    const ParamSpec& spec = table[i];
    const int64_t head_dim = gguf_is_interleaved(spec.name, config) ? config.head_dim : 0;
    if (tensors[i].type == GgufType::kBF16) {
      write_tensor<BFloat16>(spec, head_dim, normal, writer);
    } else {
      write_tensor<float>(spec, head_dim, normal, writer);
    }
    done += tensors[i].bytes();
    if (options.progress) {
      options.progress(done, all);
    }
  }
  writer.finish();
}

}  // namespace plait
