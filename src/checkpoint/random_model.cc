#include "checkpoint/random_model.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "checkpoint/random_parts.h"
#include "checkpoint/safetensors.h"
#include "spec/parameter_table.h"

namespace plait {
namespace {

constexpr int64_t kLeastVocabulary = 320;

nlohmann::json tokenizer_json() {
  nlohmann::json vocabulary;
  const std::vector<std::string> characters = byte_characters();
  for (int byte = 0; byte < kByteTokens; ++byte) {
    vocabulary[characters[static_cast<size_t>(byte)]] = byte;
  }
  nlohmann::json added = nlohmann::json::array();
  for (const char* mark : kMarks) {
    added.push_back({{"id", kByteTokens + static_cast<int>(added.size())},
                     {"content", mark},
                     {"special", true},
                     {"normalized", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"single_word", false}});
  }
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", true},
                                     {"use_regex", true}};
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocabulary},
            {"merges", nlohmann::json::array()},
            {"ignore_merges", false}}}};
}

void write_text_files(const ModelConfig& config, const std::filesystem::path& folder, DType dtype) {
  const auto write = [&](const char* name, const nlohmann::json& json) {
    write_file_atomic((folder / name).string(), json.dump(2) + "\n");
  };
  write("config.json", to_hf_config(config, dtype == DType::kBF16 ? "bfloat16" : "float32"));
  write("generation_config.json", {{"eos_token_id", {kEndOfTurn, kEndOfText}}});
  write("tokenizer.json", tokenizer_json());
  write("tokenizer_config.json", {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                  {"eos_token", kMarks[2]},
                                  {"pad_token", kMarks[0]},
                                  {"chat_template", kRandomModelTemplate}});
}

template <typename T>
void write_tensor(const ParamSpec& spec, const FastNormal& normal, SafetensorsWriter& writer) {
  const int64_t step = rows_at_a_time(spec);
  for (int64_t row = 0; row < spec.shape[0]; row += step) {
    const std::vector<T> values = random_rows<T>(
        spec, {.row_begin = row, .rows = std::min(step, spec.shape[0] - row)}, normal);
    writer.write(std::as_bytes(std::span<const T>(values)));
  }
}

}  // namespace

std::vector<std::string> byte_characters() {
  std::vector<std::string> characters;
  int next = 256;
  for (int byte = 0; byte < kByteTokens; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                           (byte >= 0xAE && byte <= 0xFF);
    const int code = printable ? byte : next++;
    std::string text;
    if (code < 0x80) {
      text.push_back(static_cast<char>(code));
    } else {
      text.push_back(static_cast<char>(0xC0 | (code >> 6)));
      text.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
    characters.push_back(text);
  }
  return characters;
}

ModelConfig random_model_config(const ModelConfig& given) {
  check_trainable(given, "make-model");
  if (given.vocab_size < kLeastVocabulary) {
    throw_error(ErrorCode::kInvalidArgument,
                "the model has a vocabulary of {}; at least {} are needed for the byte tokenizer",
                given.vocab_size, kLeastVocabulary);
  }
  ModelConfig config = given;
  config.bos_token_id = kEndOfText;
  config.eos_token_id = kEndOfTurn;
  return config;
}

ModelConfig tiny_model_config() {
  ModelConfig config;
  config.family = ModelFamily::kQwen3;
  config.vocab_size = kLeastVocabulary;
  config.hidden_size = 64;
  config.ffn_hidden_size = 160;
  config.num_layers = 4;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.max_position_embeddings = 2048;
  config.tie_word_embeddings = true;
  config.qk_norm = true;
  return config;
}

void write_random_model(const ModelConfig& given, const std::string& directory,
                        const RandomModelOptions& options) {
  const ModelConfig config = random_model_config(given);
  const std::filesystem::path folder(directory);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw_error(ErrorCode::kIo, "cannot make the folder '{}': {}", directory, error.message());
  }
  const std::vector<ParamSpec> table = make_parameter_table(config, {});
  std::vector<TensorDecl> tensors;
  for (const ParamSpec& spec : table) {
    tensors.push_back({.name = spec.name, .dtype = options.dtype, .shape = spec.shape});
  }
  const FastNormal normal(options.seed, config.initializer_range);
  const int64_t all = count_parameters(table) * dtype_size(options.dtype);
  int64_t done = 0;
  SafetensorsWriter writer((folder / "model.safetensors").string(), tensors, {{"format", "pt"}});
  for (const ParamSpec& spec : table) {
    if (options.dtype == DType::kBF16) {
      write_tensor<BFloat16>(spec, normal, writer);
    } else {
      write_tensor<float>(spec, normal, writer);
    }
    done += spec.count() * dtype_size(options.dtype);
    if (options.progress) {
      options.progress(done, all);
    }
  }
  writer.finish();
  write_text_files(config, folder, options.dtype);
}

}  // namespace plait
