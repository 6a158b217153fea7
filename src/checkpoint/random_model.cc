#include "checkpoint/random_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "base/rng.h"
#include "checkpoint/safetensors.h"
#include "spec/parameter_table.h"

namespace plait {
namespace {

constexpr int64_t kLeastVocabulary = 320;
constexpr int kByteTokens = 256;
constexpr const char* kMarks[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
constexpr int64_t kEndOfText = 256;
constexpr int64_t kEndOfTurn = 258;

constexpr const char* kTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Draws from a table of normal numbers: four values a hash, where Box-Muller would take minutes for
// a large model.
class FastNormal {
 public:
  FastNormal(uint64_t seed, double stddev) : seed_(seed) {
    for (size_t i = 0; i < kSize; ++i) {
      table_.push_back(static_cast<float>(stddev) * random_normal(seed, hash_name("table"), i));
    }
  }
  template <typename T>
  void fill(uint64_t stream, uint64_t begin, std::span<T> out) const {
    for (size_t i = 0; i < out.size(); i += 4) {
      uint64_t bits = random_bits(seed_, stream, begin + i);
      for (size_t lane = i; lane < std::min(i + 4, out.size()); ++lane) {
        out[lane] = from_float<T>(table_[bits % kSize]);
        bits >>= 16;
      }
    }
  }

 private:
  static constexpr size_t kSize = 1 << 16;
  uint64_t seed_;
  std::vector<float> table_;
};

template <typename T>
void write_tensor(const ParamSpec& spec, const FastNormal& normal, SafetensorsWriter& writer) {
  constexpr int64_t kChunk = 1 << 20;
  std::vector<T> values;
  for (int64_t begin = 0; begin < spec.count(); begin += kChunk) {
    values.assign(static_cast<size_t>(std::min(kChunk, spec.count() - begin)),
                  T(spec.init == Init::kOnes ? 1.0F : 0.0F));
    if (spec.init == Init::kNormal) {
      normal.fill(hash_name(spec.name), static_cast<uint64_t>(begin), std::span<T>(values));
    }
    writer.write(std::as_bytes(std::span<const T>(values)));
  }
}

// The characters that stand for the 256 bytes in byte-level vocabularies: printable ones for
// themselves, the others from U+0100 on (GPT-2's encoder).
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
                                  {"chat_template", kTemplate}});
}

}  // namespace

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
  check_trainable(given, "make-model");
  if (given.vocab_size < kLeastVocabulary) {
    throw_error(ErrorCode::kInvalidArgument,
                "the model has a vocabulary of {}; at least {} are needed for the byte tokenizer",
                given.vocab_size, kLeastVocabulary);
  }
  ModelConfig config = given;
  config.bos_token_id = kEndOfText;
  config.eos_token_id = kEndOfTurn;
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
