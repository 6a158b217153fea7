// Models with made-up weights: both file formats hold the same model, and reading one leaves
// nothing of the file in memory.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "checkpoint/gguf_import.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/model_text.h"
#include "checkpoint/random_model.h"
#include "spec/parameter_table.h"
#include "support/test_files.h"

namespace plait {
namespace {

ModelConfig small_llama() {
  ModelConfig config = tiny_model_config();
  config.family = ModelFamily::kLlama;
  config.qk_norm = false;
  config.tie_word_embeddings = false;
  return config;
}

std::vector<float> read_all(const ParamSpec& spec, const ParameterStore::ShardSource& source) {
  const int64_t cols = spec.count() / spec.shape[0];
  std::vector<float> values(static_cast<size_t>(spec.count()));
  source(spec, {.row_begin = 0, .rows = spec.shape[0], .col_begin = 0, .cols = cols}, values);
  return values;
}

TEST(RandomModel, BothFormatsHoldTheSameModel) {
  for (const ModelConfig& config : {tiny_model_config(), small_llama()}) {
    const TestFolder folder;
    write_random_model(config, folder.file("hf"), {.seed = 3});
    write_random_gguf(config, folder.file("gguf/model.gguf"), {.seed = 3});
    const ModelConfig from_hf = load_model_config(folder.file("hf"));
    const HfImport hf = open_hf_weights(folder.file("hf"), from_hf);
    const GgufImport gguf = open_gguf_weights(folder.file("gguf/model.gguf"));
    EXPECT_EQ(gguf.matrix_dtype, DType::kBF16);
    EXPECT_TRUE(gguf.unused.empty());
    EXPECT_EQ(gguf.config.vocab_size, from_hf.vocab_size);
    EXPECT_EQ(gguf.config.head_dim, from_hf.head_dim);
    EXPECT_EQ(gguf.config.tie_word_embeddings, from_hf.tie_word_embeddings);
    EXPECT_FLOAT_EQ(static_cast<float>(gguf.config.rope.theta),
                    static_cast<float>(from_hf.rope.theta));
    for (const ParamSpec& spec : make_parameter_table(from_hf, {})) {
      EXPECT_EQ(read_all(spec, hf.source), read_all(spec, gguf.source)) << spec.name;
    }
    const ModelText hf_text = load_model_text(folder.file("hf"));
    const ModelText gguf_text = load_model_text(folder.file("gguf/model.gguf"));
    const std::string text = "ab\n \xc3\xa4<|im_end|>";
    EXPECT_EQ(gguf_text.tokenizer->encode(text), hf_text.tokenizer->encode(text));
    EXPECT_EQ(gguf_text.tokenizer->decode(gguf_text.tokenizer->encode(text)), text);
    ASSERT_NE(gguf_text.chat_template, nullptr);
  }
}

TEST(RandomModel, AScaledRopeIsNoGguf) {
  ModelConfig config = small_llama();
  config.rope.type = RopeType::kLlama3;
  config.rope.factor = 8;
  const TestFolder folder;
  EXPECT_THROW(write_random_gguf(config, folder.file("x.gguf"), {}), Error);
}

// Of the maps of files below `path`, in this process.
int64_t resident_bytes(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  int64_t bytes = 0;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(": ") == std::string::npos || line.find('/') != std::string::npos) {
      inside = line.find(path) != std::string::npos;
    }
    std::istringstream words(line);
    std::string name;
    int64_t kib = 0;
    if (inside && words >> name >> kib && name == "Rss:") {
      bytes += kib * 1024;
    }
  }
  return bytes;
}

TEST(RandomModel, WhatHasBeenReadTakesNoMemory) {
  ModelConfig config = tiny_model_config();
  config.vocab_size = 100000;
  const TestFolder folder;
  write_random_model(config, folder.file("hf"), {});
  write_random_gguf(config, folder.file("model.gguf"), {});
  const int64_t matrix_bytes = config.vocab_size * config.hidden_size * 2;
  const HfImport hf = open_hf_weights(folder.file("hf"), config);
  const GgufImport gguf = open_gguf_weights(folder.file("model.gguf"));
  for (const ParameterStore::ShardSource& source : {hf.source, gguf.source}) {
    for (const ParamSpec& spec : make_parameter_table(config, {})) {
      read_all(spec, source);
    }
  }
  EXPECT_LT(resident_bytes(folder.path()), matrix_bytes / 4);
}

}  // namespace
}  // namespace plait
