#include "spec/run_file.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace plait {
namespace {

constexpr RunKey kKeys[] = {
    {"seed", RunType::kInteger},
    {"train.steps", RunType::kInteger},
    {"train.lr", RunType::kNumber},
    {"train.layout", RunType::kText},
    {"train.resume", RunType::kFlag},
    {"train.betas", RunType::kNumberList},
    {"model.stages", RunType::kIntegerList},
    {"model.files", RunType::kTextList},
};

RunValues parse(const std::string& text) {
  return parse_run_file(text, "run.toml", kKeys);
}

void expect_error(const std::string& text, const std::string& part) {
  try {
    parse(text);
    ADD_FAILURE() << "accepted, expected '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find("run.toml: "), 0U) << error.message();
  }
}

TEST(RunFile, ReadsTypedValuesWithLines) {
  const RunValues values = parse(
      "seed = 7  # a comment\n"
      "[train]\n"
      "steps = 1_000\n"
      "lr = 2\n"
      "layout = \"dp2.tp2\"\n"
      "resume = true\n"
      "betas = [0.9, 1]\n"
      "[model]\n"
      "stages = [3, 5]\n"
      "files = [\"a\", 'b']\n");
  ASSERT_EQ(values.size(), 8U);
  EXPECT_EQ(std::get<int64_t>(values.at("seed").value), 7);
  EXPECT_EQ(std::get<int64_t>(values.at("train.steps").value), 1000);
  EXPECT_EQ(values.at("train.steps").line, 3);
  EXPECT_EQ(std::get<double>(values.at("train.lr").value), 2.0);
  EXPECT_EQ(std::get<std::string>(values.at("train.layout").value), "dp2.tp2");
  EXPECT_TRUE(std::get<bool>(values.at("train.resume").value));
  EXPECT_EQ(std::get<std::vector<double>>(values.at("train.betas").value),
            (std::vector<double>{0.9, 1}));
  EXPECT_EQ(std::get<std::vector<int64_t>>(values.at("model.stages").value),
            (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(std::get<std::vector<std::string>>(values.at("model.files").value),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(std::get<std::string>(parse("train.layout = \"\xc3\xa9\"").at("train.layout").value),
            "\xc3\xa9");
  EXPECT_TRUE(parse("").empty());
  EXPECT_EQ(std::get<int64_t>(parse("train.steps = 3").at("train.steps").value), 3);
  EXPECT_EQ(std::get<int64_t>(parse("train = {steps = 3}").at("train.steps").value), 3);
}

TEST(RunFile, UnknownKeysAreNamedWithTheNearest) {
  expect_error("[train]\nlr = 1\nstep = 3",
               "line 3: unknown key 'train.step', did you mean "
               "'train.steps'?; allowed are train.betas, train.lay");
  expect_error("[trian]\nlr = 1", "line 1: unknown section 'trian', did you mean 'train'?");
  expect_error("sead = 1", "line 1: unknown key 'sead', did you mean 'seed'?");
  expect_error("xyzzy = 1", "unknown key 'xyzzy'; allowed are seed");
  expect_error("[train.deep]\nx = 1", "unknown section 'train.deep'");
  expect_error("[[train]]\nlr = 1", "unknown key 'train'");
  expect_error(std::string(100000, 'x') + " = 1", "unknown key 'xxx");
}

TEST(RunFile, WrongTypesAreNamed) {
  expect_error("[train]\nsteps = \"3\"", "line 2: train.steps must be an integer, but is a string");
  expect_error("train.steps = 3.0", "but is a number with a fraction");
  expect_error("train.lr = nan", "a finite number");
  expect_error("train.lr = true", "but is a flag");
  expect_error("train.layout = 1", "must be a string");
  expect_error("train.layout = 1979-05-27", "but is a date or time");
  expect_error("train.resume = 1", "must be true or false");
  expect_error("train.betas = [1, \"x\"]", "must be a list of numbers");
  expect_error("train.betas = 1", "but is an integer");
  expect_error("model.stages = [1.5]", "must be a list of integers");
  expect_error("[train.steps]\nx = 1", "train.steps must be an integer, but is a table");
  expect_error("\"train.steps\" = 1\ntrain.steps = 2", "set twice");
}

TEST(RunFile, BadTomlIsNamed) {
  expect_error("seed = ", "line 1, column");
  expect_error("seed = 1\nseed = 2", "line 2");
  expect_error("seed = 99999999999999999999", "not valid TOML");
  expect_error("seed = \"\xff\"", "not valid TOML");
  expect_error("[train", "not valid TOML");
  expect_error("[)a]", "not valid TOML");
  expect_error("[[)a]]", "not valid TOML");
  expect_error(
      "s\xc3\xa9"
      "ed = 1",
      "not valid TOML");
  expect_error("seed = 1\xe2\x82\xac", "not valid TOML");
  std::string deep = "a";
  for (int i = 0; i < 100000; ++i) {
    deep += ".a";
  }
  expect_error(deep + " = 1", "dots");
  expect_error(deep.substr(0, 2 * 4096 + 1) + " = 1", "unknown section");
  expect_error("seed = " + std::string(100000, '['), "not valid TOML");
}

TEST(RunFile, AMissingFileIsNotFound) {
  try {
    load_run_file("/nonexistent/run.toml", kKeys);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

}  // namespace
}  // namespace plait
