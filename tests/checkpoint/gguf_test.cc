// The GGUF reader: blocks as ggml defines them, metadata, tokenizer, bad files.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_import.h"
#include "checkpoint/gguf_parts.h"
#include "checkpoint/gguf_rig.h"
#include "checkpoint/model_text.h"
#include "support/test_files.h"

namespace plait {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string error_of(const std::string& bytes) {
  try {
    const GgufView view(as_bytes(bytes), "x.gguf");
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.code()), 2);
    return error.message();
  }
  return "no error";
}

// Bits from the gguf package of Python.
TEST(GgufBlocks, ExpandExactly) {
  const char* data = std::getenv("PLAIT_TEST_DATA");
  const std::string folder = data == nullptr ? "tests/data" : data;
  const Json cases = read_json(folder + "/gguf/blocks.json");
  ASSERT_EQ(cases.size(), 11U);
  for (const Json& each : cases) {
    const auto info = gguf_type_info(each["type"].get<uint32_t>());
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->name, each["name"].get<std::string>());
    const std::string bytes = from_hex(each["bytes"].get<std::string>());
    const auto count = static_cast<int64_t>(each["bits"].size());
    GgufBuilder builder;
    builder.tensor("t", {1, count}, each["type"].get<uint32_t>(), bytes);
    const std::string file = builder.bytes();
    const GgufView view(as_bytes(file), "x.gguf");
    std::vector<float> values(static_cast<size_t>(count));
    copy_row_as_f32(view.at("t"), {0, 0}, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto bits = std::stoul(each["bits"][i].get<std::string>(), nullptr, 16);
      EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), bits) << info->name << " " << i;
    }
    // A part of a row is the same as within the whole row.
    std::vector<float> part(5);
    copy_row_as_f32(view.at("t"), {0, count - 7}, part);
    for (size_t i = 0; i < part.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(part[i]),
                std::bit_cast<uint32_t>(values[static_cast<size_t>(count) - 7 + i]));
    }
  }
}

TEST(Gguf, MetadataIsTyped) {
  GgufBuilder builder;
  builder.text("a", "x").integer("n", 7).number("f", 0.5F).flag("b", true);
  builder.texts("ts", {"p", "", "q"}).integers("is", {1, -2});
  const std::string file = builder.bytes(2);
  const GgufView view(as_bytes(file), "x.gguf");
  EXPECT_EQ(view.text("a"), "x");
  EXPECT_EQ(view.integer("n"), 7);
  EXPECT_EQ(view.number("n"), 7.0);
  EXPECT_EQ(view.number("f"), 0.5);
  EXPECT_EQ(view.flag("b"), true);
  EXPECT_EQ(view.texts("ts"), (std::vector<std::string>{"p", "", "q"}));
  EXPECT_EQ(view.integers("is"), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(view.integers("n"), std::vector<int64_t>{7});
  EXPECT_FALSE(view.text("none").has_value());
  EXPECT_THROW(view.text("n"), Error);
  EXPECT_THROW(view.integer("is"), Error);
  EXPECT_THROW(view.number("a"), Error);
  EXPECT_THROW(view.flag("n"), Error);
  EXPECT_THROW(view.required_text("none"), Error);
}

TEST(Gguf, BadFilesAreNamed) {
  GgufBuilder builder;
  builder.text("k", "v").tensor("w", {2, 32}, 8, std::string(68, '\1'));
  const std::string good = builder.bytes();
  EXPECT_EQ(error_of(good), "no error");
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(error_of(good.substr(0, size)), "no error") << size;
  }
  const auto says = [](const std::string& bytes, const char* part) {
    const std::string error = error_of(bytes);
    EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_NE(error.find("x.gguf"), std::string::npos);
  };
  says("nonsense", "not a GGUF file");
  says(GgufBuilder().bytes(1), "GGUF version 1");
  says(good.substr(0, good.size() - 1), "tensor 'w' (Q8_0) needs 68 bytes");
  says(GgufBuilder().tensor("w", {1, 32}, 19, "x").bytes(), "ggml type 19");
  says(GgufBuilder().tensor("w", {1, 33}, 8, std::string(99, 'x')).bytes(), "multiples of 32");
  says(GgufBuilder().tensor("w", {0}, 0, "").bytes(), "impossible dim");
  says(GgufBuilder().tensor("w", {1L << 40, 1L << 40}, 0, "").bytes(), "impossible dim");
  says(GgufBuilder().tensor("w", {1}, 0, "abcd").tensor("w", {1}, 0, "abcd").bytes(), "twice");
  says(GgufBuilder().text("k", "").text("k", "").bytes(), "'k' is there twice");
  says(GgufBuilder().integer("split.count", 2).bytes(), "one of 2 parts");
  says(GgufBuilder().integer("general.alignment", 0).bytes(), "general.alignment");
}

TEST(Gguf, RowsOfRotaryPairsGoBack) {
  // Heads of 4 rows: the file has 0 2 1 3 of HF's rows.
  EXPECT_EQ(gguf_interleaved_row(0, 4), 0);
  EXPECT_EQ(gguf_interleaved_row(1, 4), 2);
  EXPECT_EQ(gguf_interleaved_row(2, 4), 1);
  EXPECT_EQ(gguf_interleaved_row(3, 4), 3);
  EXPECT_EQ(gguf_interleaved_row(13, 8), 8 + 3);
}

GgufBuilder llama_metadata(const std::string& architecture) {
  GgufBuilder builder;
  builder.text("general.architecture", architecture);
  const std::string prefix = architecture + ".";
  builder.integer(prefix + "block_count", 1).integer(prefix + "embedding_length", 32);
  builder.integer(prefix + "feed_forward_length", 64).integer(prefix + "attention.head_count", 4);
  builder.integer(prefix + "attention.head_count_kv", 2).integer(prefix + "context_length", 128);
  builder.number(prefix + "rope.freq_base", 500000.0F);
  builder.tensor("token_embd.weight", {10, 32}, 0, std::string(1280, '\0'));
  return builder;
}

ModelConfig config_of(const GgufBuilder& builder) {
  const std::string file = builder.bytes();
  return gguf_config(GgufView(as_bytes(file), "x.gguf"));
}

std::string floats(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

TEST(GgufConfig, ReadsLlamaAndItsRopeFactors) {
  const ModelConfig plain = config_of(llama_metadata("llama"));
  EXPECT_EQ(plain.family, ModelFamily::kLlama);
  EXPECT_EQ(plain.head_dim, 8);
  EXPECT_EQ(plain.num_kv_heads, 2);
  EXPECT_EQ(plain.rope.theta, 500000.0);
  EXPECT_TRUE(plain.tie_word_embeddings);
  EXPECT_EQ(plain.rope.type, RopeType::kDefault);
  // theta 5e5, head_dim 8: wavelengths 6.28, 167, 4443, 118143; 8192/4 and 8192/1 are the borders.
  const double smooth = (8192 / 4442.883) - 1;
  const auto middle = static_cast<float>(1 / ((1 - smooth / 3) / 8 + smooth / 3));
  const ModelConfig scaled = config_of(
      llama_metadata("llama").tensor("rope_freqs.weight", {4}, 0, floats({1, 1, middle, 8})));
  EXPECT_EQ(scaled.rope.type, RopeType::kLlama3);
  EXPECT_EQ(scaled.rope.factor, 8);
  EXPECT_EQ(scaled.rope.original_max_position_embeddings, 8192);
  EXPECT_THROW(config_of(llama_metadata("llama").tensor("rope_freqs.weight", {4}, 0,
                                                        floats({1, 2, middle, 8}))),
               Error);
}

TEST(GgufConfig, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(config_of(llama_metadata("gemma3")), Error);
  EXPECT_THROW(config_of(llama_metadata("llama").integer("llama.expert_count", 8)), Error);
  EXPECT_THROW(config_of(llama_metadata("llama").integer("llama.rope.dimension_count", 4)), Error);
  EXPECT_THROW(config_of(llama_metadata("llama").text("llama.rope.scaling.type", "odd")), Error);
  EXPECT_THROW(config_of(llama_metadata("qwen2").integer("qwen2.attention.sliding_window", 64)),
               Error);
}

GgufBuilder tokenizer_metadata(const std::string& pre) {
  std::vector<std::string> tokens = {"<|im_start|>", "<|im_end|>", "<think>"};
  std::vector<int32_t> types = {3, 3, 4};
  for (char c = '!'; c <= '~'; ++c) {
    tokens.emplace_back(1, c);
    types.push_back(1);
  }
  for (const char* token : {"\xc4\xa0", "ab",
                            "\xc4\xa0"
                            "ab"}) {
    tokens.emplace_back(token);
    types.push_back(1);
  }
  GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  builder.texts("tokenizer.ggml.tokens", tokens).integers("tokenizer.ggml.token_type", types);
  builder.texts("tokenizer.ggml.merges", {"a b", "\xc4\xa0 ab"});
  builder.integer("tokenizer.ggml.bos_token_id", 0).integer("tokenizer.ggml.eos_token_id", 1);
  builder.text("tokenizer.chat_template", "{{ messages[0].content }}{{ eos_token }}");
  return builder;
}

TEST(GgufTokenizer, EncodesAndStops) {
  const TestFolder folder;
  const std::string path = folder.file("m.gguf");
  write_file_atomic(path, tokenizer_metadata("smollm").bytes());
  EXPECT_TRUE(is_gguf_file(path));
  const ModelText text = load_model_text(path);
  const Tokenizer& tokenizer = *text.tokenizer;
  const std::vector<int32_t> ids = tokenizer.encode("<|im_start|>ab ab12<think>");
  const auto id = [&](const char* token) { return *tokenizer.find_token(token); };
  EXPECT_EQ(ids, (std::vector<int32_t>{0, id("ab"), id(" ab"), id("1"), id("2"), 2}));
  EXPECT_EQ(tokenizer.decode(ids), "<|im_start|>ab ab12<think>");
  EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = true}), "ab ab12<think>");
  EXPECT_EQ(text.eos_ids, std::vector<int32_t>{1});
  const Json messages = {{{"role", "user"}, {"content", "x"}}};
  EXPECT_EQ(join_segments(text.chat_template->render({.messages = &messages})), "x<|im_end|>");
}

TEST(GgufTokenizer, RefusesWhatItDoesNotKnow) {
  const auto refuses = [](const GgufBuilder& builder, const char* part) {
    const std::string file = builder.bytes();
    try {
      gguf_tokenizer(GgufView(as_bytes(file), "x.gguf"));
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  };
  refuses(GgufBuilder().text("tokenizer.ggml.model", "llama"), "SentencePiece");
  refuses(tokenizer_metadata("unheard-of"), "unheard-of");
  refuses(GgufBuilder().text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "qwen2"),
          "tokens");
}

}  // namespace
}  // namespace plait
