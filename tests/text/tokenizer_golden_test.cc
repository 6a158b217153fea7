// Qwen3's tokenizer against ids that HF tokenizers gave.
#include <gtest/gtest.h>

#include <sstream>

#include "base/json_full.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/text_rig.h"

namespace plait {
namespace {

struct Golden {
  std::string text;
  std::vector<int32_t> ids;
};

std::vector<Golden> read_goldens() {
  std::vector<Golden> goldens;
  std::istringstream lines(read_text_data("qwen3_text.jsonl"));
  std::string line;
  while (std::getline(lines, line)) {
    const Json json = parse_json(line, "qwen3_text.jsonl");
    if (json.contains("ids")) {
      goldens.push_back(
          {json.at("text").get<std::string>(), json.at("ids").get<std::vector<int32_t>>()});
    }
  }
  return goldens;
}

TEST(TokenizerGolden, HardStringsGiveTheIdsOfHf) {
  const std::vector<Golden> goldens = read_goldens();
  ASSERT_EQ(goldens.size(), 400U);
  for (const Golden& golden : goldens) {
    EXPECT_EQ(qwen3_tokenizer().encode(golden.text), golden.ids) << golden.text;
  }
}

TEST(TokenizerGolden, StreamedTextEqualsTheTextAtOnce) {
  for (const Golden& golden : read_goldens()) {
    Detokenizer detokenizer(qwen3_tokenizer());
    std::string streamed;
    for (const int32_t id : golden.ids) {
      const std::string delta = detokenizer.push(id);
      ASSERT_EQ(find_invalid_utf8(delta), std::string_view::npos);
      streamed += delta;
    }
    streamed += detokenizer.finish();
    EXPECT_EQ(streamed, qwen3_tokenizer().decode(golden.ids));
  }
}

TEST(TokenizerGolden, VocabularyOfQwen3) {
  const Tokenizer& tokenizer = qwen3_tokenizer();
  EXPECT_EQ(tokenizer.vocab_size(), 151669);
  EXPECT_EQ(tokenizer.eos_id(), 151645);
  EXPECT_FALSE(tokenizer.bos_id().has_value());
  EXPECT_EQ(tokenizer.token_bytes(151644), "<|im_start|>");
  EXPECT_TRUE(tokenizer.is_special(151644));
  EXPECT_FALSE(tokenizer.is_special(151667));  // <think>
  EXPECT_FALSE(tokenizer.has_token(151669));
  EXPECT_EQ(tokenizer.token_bytes(151935), "");
}

TEST(TokenizerGolden, SkippingSpecialTokensKeepsTheAddedOnes) {
  const std::vector<int32_t> ids =
      qwen3_tokenizer().encode("<|im_start|>a<think>b</think><|im_end|>");
  EXPECT_EQ(qwen3_tokenizer().decode(ids, {.skip_special_tokens = true}), "a<think>b</think>");
}

TEST(TokenizerGolden, NormalisesToNfcFirst) {
  EXPECT_EQ(qwen3_tokenizer().encode("e\xcc\x81"), qwen3_tokenizer().encode("\xc3\xa9"));
  EXPECT_EQ(qwen3_tokenizer().encode("\xe1\x84\x80\xe1\x85\xa1"), std::vector<int32_t>{19969});
}

}  // namespace
}  // namespace plait
