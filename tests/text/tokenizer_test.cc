// Tokenizer parts: splits against PCRE2, merges, added tokens, what the reader refuses, hostile
// text.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_full.h"
#include "text/bpe.h"
#include "text/splitter.h"
#include "text/text_rig.h"
#include "text/unicode.h"

namespace plait {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  size_t below(size_t limit) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) % limit;
  }

 private:
  uint64_t state_;
};

std::string random_text(Random& random) {
  static const std::vector<std::string> parts = {"a",
                                                 "Z",
                                                 "the",
                                                 " ",
                                                 "  ",
                                                 "\n",
                                                 "\r\n",
                                                 "\t",
                                                 "'s",
                                                 "'LL",
                                                 "'",
                                                 "1",
                                                 "2345",
                                                 "\xc2\xb2",
                                                 "\xc3\xa9",
                                                 "\xe4\xb8\xad",
                                                 "!",
                                                 "...",
                                                 "\xc2\xa0",
                                                 "\xe3\x80\x80",
                                                 "_",
                                                 "e\xcc\x81",
                                                 "\xf0\x9f\x99\x82",
                                                 "\xd9\xa3",
                                                 "<|",
                                                 "\x7f"};
  std::string text;
  for (size_t i = random.below(14); i > 0; --i) {
    text += parts[random.below(parts.size())];
  }
  return text;
}

TEST(Splitter, HandWrittenMatchersAgreeWithPcre2) {
  for (const char* regex : {kQwen2SplitRegex, kLlama3SplitRegex, kGpt2SplitRegex}) {
    const auto fast = make_splitter({true, regex}, "t");
    const auto slow = make_regex_splitter(regex, "t");
    Random random(3);
    for (int round = 0; round < 3000; ++round) {
      const std::string text = random_text(random);
      std::vector<size_t> ends;
      std::vector<size_t> expected;
      fast->split(text, 10, ends);
      slow->split(text, 10, expected);
      ASSERT_EQ(ends, expected) << regex << ": " << text;
    }
  }
}

TEST(Splitter, UnknownRegexesAreIsolated) {
  const auto splitter = make_splitter({true, R"(\d+|x*)"}, "t");
  std::vector<size_t> ends;
  splitter->split("ab12cxx", 0, ends);
  EXPECT_EQ(ends, (std::vector<size_t>{2, 4, 5, 7}));
  EXPECT_THROW(make_splitter({true, "(unclosed"}, "t"), Error);
}

// The definition: the pair of least rank, leftmost first, one merge at a time.
std::vector<int32_t> merge_plainly(const TokenizerSpec& spec, const std::string& piece) {
  std::vector<int32_t> ids;
  for (const char c : piece) {
    ids.push_back(static_cast<uint8_t>(c));
  }
  for (;;) {
    size_t best = spec.merges.size();
    size_t place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = std::ranges::find(spec.merges, std::pair(ids[i], ids[i + 1]));
      const auto rank = static_cast<size_t>(found - spec.merges.begin());
      if (rank < best) {
        best = rank;
        place = i;
      }
    }
    if (best == spec.merges.size()) {
      return ids;
    }
    const auto [left, right] = spec.merges[best];
    const std::string token =
        spec.tokens[static_cast<size_t>(left)] + spec.tokens[static_cast<size_t>(right)];
    ids[place] = static_cast<int32_t>(std::ranges::find(spec.tokens, token) - spec.tokens.begin());
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(Bpe, ShortAndLongPiecesFollowTheDefinition) {
  // Ranks do not rise with length: a long token's merge may come before its parts' other uses.
  TokenizerSpec spec = make_spec({
      .tokens = {"ab", "bc", "abc", "aa", "aaaa", "cab", "abab", "ca"},
      .merges = {{"ab", "c"},
                 {"b", "c"},
                 {"a", "a"},
                 {"ab", "ab"},
                 {"a", "b"},
                 {"c", "ab"},
                 {"aa", "aa"},
                 {"a", "bc"},
                 {"c", "a"}},
      .added = {},
  });
  const Bpe bpe(spec);
  Random random(11);
  for (int round = 0; round < 400; ++round) {
    std::string piece;
    for (size_t i = 1 + random.below(round % 2 == 0 ? 20 : 200); i > 0; --i) {
      piece += static_cast<char>('a' + random.below(3));
    }
    std::vector<int32_t> ids;
    bpe.encode(piece, ids);
    ASSERT_EQ(ids, merge_plainly(spec, piece)) << piece;
  }
}

TEST(Bpe, IgnoreMergesTakesWholeTokens) {
  TokenizerSpec spec = make_spec({.tokens = {"ab", "abc"}, .merges = {{"a", "b"}}, .added = {}});
  EXPECT_EQ(Tokenizer(spec).encode("abc"), (std::vector<int32_t>{256, 'c'}));
  spec.ignore_merges = true;
  EXPECT_EQ(Tokenizer(spec).encode("abc"), std::vector<int32_t>{257});
}

TEST(Bpe, RefusesMergesThatGiveNoToken) {
  TokenizerSpec spec = make_spec({.tokens = {"ab"}, .merges = {{"a", "b"}}, .added = {}});
  spec.merges.emplace_back('b', 'a');
  EXPECT_THROW(Tokenizer{spec}, Error);
  spec.merges.back() = {'b', 9999};
  EXPECT_THROW(Tokenizer{spec}, Error);
}

TEST(AddedTokens, FlagsAreFollowed) {
  AddedToken mask{.content = "<m>", .special = true, .lstrip = true};
  AddedToken word{.content = "cat", .single_word = true};
  AddedToken tail{.content = "<t>", .rstrip = true};
  AddedToken longer{.content = "<m>!"};
  const Tokenizer tokenizer(
      make_spec({.tokens = {}, .merges = {}, .added = {mask, word, tail, longer}}));
  EXPECT_EQ(tokenizer.encode("a \n<m>b"), (std::vector<int32_t>{'a', 1000, 'b'}));
  EXPECT_EQ(tokenizer.encode("<t>  b"), (std::vector<int32_t>{1002, 'b'}));
  EXPECT_EQ(tokenizer.encode("<m>!"), std::vector<int32_t>{1003});
  EXPECT_EQ(tokenizer.encode("cat,"), (std::vector<int32_t>{1001, ','}));
  EXPECT_EQ(tokenizer.encode("cats"), (std::vector<int32_t>{'c', 'a', 't', 's'}));
  EXPECT_EQ(tokenizer.encode("<m>", {.recognise_special = false}),
            (std::vector<int32_t>{'<', 'm', '>'}));
  EXPECT_EQ(tokenizer.encode("<t>", {.recognise_special = false}), std::vector<int32_t>{1002});
}

TEST(AddedTokens, NormalizedOnesAreFoundInNormalizedText) {
  TokenizerSpec spec = make_spec(
      {.tokens = {}, .merges = {}, .added = {{.content = "caf\xc3\xa9", .normalized = true}}});
  spec.nfc = true;
  EXPECT_EQ(Tokenizer(spec).encode("cafe\xcc\x81"), std::vector<int32_t>{1000});
}

TEST(AddedTokens, SegmentsDecideWhatIsSpecial) {
  const Tokenizer tokenizer(make_spec({
      .tokens = {},
      .merges = {},
      .added = {{.content = "<s>", .special = true}, {.content = "<u>"}},
  }));
  const std::vector<TextSegment> segments = {
      {"<s>", false}, {"<s><u>", true}, {"<s", false}, {">", true}};
  EXPECT_EQ(tokenizer.encode(segments),
            (std::vector<int32_t>{1000, '<', 's', '>', 1001, '<', 's', '>'}));
}

TEST(Nfc, IsThatOfUnicode) {
  EXPECT_EQ(to_nfc("e\xcc\x81"), "\xc3\xa9");
  EXPECT_EQ(to_nfc("x\xe2\x84\xa6y"), "x\xce\xa9y");       // ohm sign
  EXPECT_EQ(to_nfc("a\xcc\x82\xcc\xa3"), "\xe1\xba\xad");  // marks are ordered first
  EXPECT_EQ(to_nfc("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"), "\xea\xb0\x81");
  EXPECT_EQ(to_nfc("\xe2\x80\x94\xe4\xb8\xad\xf0\x9f\x99\x82"),
            "\xe2\x80\x94\xe4\xb8\xad\xf0\x9f\x99\x82");
}

TEST(Tokenizer, HostileTextIsNoTrouble) {
  // Quadratic work on any of these would take hours.
  const Tokenizer& tokenizer = qwen3_tokenizer();
  for (const std::string part : {"a", " ", "\n", "7", "<|im_start|", "\xcc\x81\xcc\xa3", "ab"}) {
    std::string text;
    while (text.size() < (size_t{1} << 20)) {
      text += part;
    }
    const std::vector<int32_t> ids = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode(ids), to_nfc(text)) << part;
  }
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  EXPECT_THROW(qwen3_tokenizer().encode("ab\xff"), Error);
  EXPECT_THROW(qwen3_tokenizer().encode("\xed\xa0\x80"), Error);
}

Json small_file() {
  return parse_json(R"({
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel"},
    "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})",
                    "small");
}

TEST(HfTokenizer, ReadsBothKindsOfMergesAndThePostProcessor) {
  Json file = small_file();
  const std::string config =
      R"({"bos_token": {"content": "<s>"}, "eos_token": "<s>", "chat_template":
          [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}],
          "added_tokens_decoder": {"3": {"content": "<s>"}, "4": {"content": "<x>"}}})";
  for (const char* merges : {R"(["a b"])", R"([["a", "b"]])"}) {
    file["model"]["merges"] = parse_json(merges, "merges");
    const Tokenizer tokenizer(parse_hf_tokenizer(dump_json(file), config, "small"));
    EXPECT_EQ(tokenizer.encode("ab", {.add_special_tokens = true}), (std::vector<int32_t>{3, 2}));
    EXPECT_EQ(tokenizer.encode("ab<x>"), (std::vector<int32_t>{2, 4}));
    EXPECT_EQ(tokenizer.bos_id(), 3);
    EXPECT_EQ(tokenizer.chat_template(), "d");
  }
}

TEST(HfTokenizer, RefusesWhatItDoesNotKnow) {
  const auto refuses = [](const char* pointer, const char* value, const char* part) {
    Json file = small_file();
    file[Json::json_pointer(pointer)] = parse_json(value, "value");
    try {
      const Tokenizer tokenizer(parse_hf_tokenizer(dump_json(file), "", "small"));
      ADD_FAILURE() << pointer << " " << value;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
      EXPECT_EQ(exit_code(error.code()), 2);
    }
  };
  refuses("/model/type", "\"Unigram\"", "Unigram");
  refuses("/model/byte_fallback", "true", "SentencePiece");
  refuses("/pre_tokenizer", R"({"type": "Metaspace"})", "SentencePiece");
  refuses("/pre_tokenizer", "null", "ByteLevel");
  refuses("/pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [{"type": "Punctuation"},
          {"type": "ByteLevel"}]})",
          "Punctuation");
  refuses("/normalizer", R"({"type": "Lowercase"})", "Lowercase");
  refuses("/decoder", R"({"type": "WordPiece"})", "decoder");
  refuses("/post_processor", R"({"type": "BertProcessing"})", "BertProcessing");
  refuses("/model/merges", R"(["a q"])", "no token");
  refuses("/model/merges", R"(["a"])", "a space");
  refuses("/model/vocab", R"({"a": 0, "b": 0})", "two tokens have the id 0");
  refuses("/model/vocab", R"({"a": 99999999})", "the id 99999999");
  refuses("/added_tokens/0/id", "1", "both have the id 1");
}

}  // namespace
}  // namespace plait
