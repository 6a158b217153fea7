// The answers of HF transformers and PyTorch, under every kind of layout.
#include "train/golden.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace plait {
namespace {

class GoldenTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(GoldenTest, AgreesWithTransformers) {
  const auto& [model, layout] = GetParam();
  VerifyOptions options;
  options.directory = std::string(std::getenv("PLAIT_TEST_DATA")) + "/goldens/" + model;
  options.layout = parse_layout(layout);
  options.threads_per_rank = 1;
  const GoldenReport report = verify_golden(options);
  EXPECT_GT(report.parts.size(), 10U);
  for (const GoldenPart& part : report.parts) {
    EXPECT_TRUE(part.passed()) << part.name << ": error " << part.error << ", limit " << part.limit;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Goldens, GoldenTest,
    testing::Combine(testing::Values("tiny-qwen3", "tiny-llama", "tiny-qwen2"),
                     testing::Values("dp1", "dp2", "tp2", "pp2", "dp2.tp2.pp2.sp.zero1")),
    [](const testing::TestParamInfo<GoldenTest::ParamType>& param) {
      std::string name = std::get<0>(param.param) + "_" + std::get<1>(param.param);
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

}  // namespace
}  // namespace plait
