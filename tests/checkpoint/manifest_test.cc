// The manifest: what is written comes back, and no damage goes unseen.
#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_full.h"
#include "checkpoint_rig.h"

namespace plait {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.meta = {.step = 12, .tokens_seen = int64_t{1} << 40, .seed = ~uint64_t{0}};
  manifest.meta.extra = R"({"position":{"epoch":3},"name":"\u00e9"})";
  manifest.layout = "dp2.zero1";
  manifest.compute_dtype = "bf16";
  manifest.world_size = 2;
  manifest.model = test::rig_model(true);
  manifest.files = {{"rank-00000.safetensors", 1000, 0x12345678},
                    {"rank-00001.safetensors", 2000, 0xfedcba98}};
  for (const ParamSpec& spec : make_parameter_table(manifest.model, {})) {
    const Shard whole{.row_begin = 0, .rows = spec.shape[0], .col_begin = 0, .cols = spec.cols()};
    manifest.pieces.push_back({spec.name, {whole, 0, 3}, 0, {1, 2, 3}});
    manifest.pieces.push_back({spec.name, {whole, 3, whole.count()}, 1, {4, 5, 6}});
  }
  return manifest;
}

// The message of the error; empty if there is none.
std::string parse_problem(const std::string& text) {
  try {
    parse_manifest(text, "m.json");
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Manifest, ComesBackEqual) {
  const std::string text = manifest_text(example());
  const Manifest parsed = parse_manifest(text, "m.json");
  EXPECT_EQ(parsed.meta.step, 12);
  EXPECT_EQ(parsed.meta.tokens_seen, int64_t{1} << 40);
  EXPECT_EQ(parsed.meta.seed, ~uint64_t{0});
  EXPECT_EQ(parse_json(parsed.meta.extra, ""), parse_json(example().meta.extra, ""));
  EXPECT_EQ(parsed.pieces[1].part.begin, 3);
  EXPECT_EQ(parsed.pieces[1].crc32c[2], 6U);
  EXPECT_EQ(manifest_text(parsed), text);
}

TEST(Manifest, RefusesExtraStateThatIsNoJson) {
  Manifest manifest = example();
  manifest.meta.extra = "{";
  EXPECT_THROW(manifest_text(manifest), Error);
}

TEST(Manifest, EveryTruncationNamesFileAndOffset) {
  const std::string text = manifest_text(example());
  for (size_t size = 0; size < text.size();
       size += size < 400 || size + 40 > text.size() ? 1 : 97) {
    const std::string problem = parse_problem(text.substr(0, size));
    EXPECT_NE(problem.find("m.json: byte "), std::string::npos) << size << ": " << problem;
  }
}

TEST(Manifest, EveryBitFlipIsSeen) {
  const std::string text = manifest_text(example());
  for (size_t i = 0; i < text.size(); i += i < 100 || i + 40 > text.size() ? 1 : 307) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_NE(parse_problem(damaged).find("m.json"), std::string::npos) << i << " bit " << bit;
    }
  }
}

TEST(Manifest, RefusesForeignFiles) {
  for (const char* text : {"{}", "[]", "3", "null", R"({"format":"pt","version":1})",
                           R"({"metadata":{"total_size":3},"weight_map":{}})"}) {
    EXPECT_NE(parse_problem(text).find("m.json"), std::string::npos) << text;
  }
}

TEST(Manifest, RefusesPiecesThatDoNotMakeUpTheModel) {
  Manifest gap = example();
  gap.pieces[0].part.begin = 1;
  EXPECT_NE(parse_problem(manifest_text(gap)).find("hold"), std::string::npos);
  Manifest twice = example();
  twice.pieces[0].part.end = 4;
  EXPECT_NE(parse_problem(manifest_text(twice)).find("overlap"), std::string::npos);
  Manifest missing = example();
  missing.pieces.pop_back();
  EXPECT_NE(parse_problem(manifest_text(missing)).find("hold"), std::string::npos);
  Manifest unknown = example();
  unknown.pieces.push_back({"model.other", {{0, 2, 0, 2}, 0, 4}, 0, {}});
  EXPECT_NE(parse_problem(manifest_text(unknown)).find("model.other"), std::string::npos);
  Manifest file = example();
  file.pieces[0].file = 2;
  EXPECT_NE(parse_problem(manifest_text(file)).find("file 2"), std::string::npos);
  Manifest path = example();
  path.files[0].name = "../x";
  EXPECT_NE(parse_problem(manifest_text(path)).find("plain file name"), std::string::npos);
  Manifest wide = example();
  wide.pieces[0].part.shard.cols = int64_t{1} << 40;
  EXPECT_NE(parse_problem(manifest_text(wide)), "");
}

TEST(Manifest, NamesTheKeyInWhichModelsDiffer) {
  const ModelConfig saved = test::rig_model(true);
  check_same_model(saved, saved, "step-1");
  ModelConfig other = saved;
  other.ffn_hidden_size = 25;
  try {
    check_same_model(saved, other, "step-1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message().find("intermediate_size is 24 in the checkpoint, but 25"),
              std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace plait
