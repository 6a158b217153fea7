// Batches that are not even: padded vocabularies, masked shares, and what the loss is divided by.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "comm/rank_runner.h"
#include "train/small_run.h"

namespace plait {
namespace {

TEST(PaddedVocabulary, TrainsToTheSameLoss) {
  for (const bool tied : {true, false}) {
    for (const char* layout : {"dp1", "tp4", "dp2.tp2.pp2.sp.zero1"}) {
      SCOPED_TRACE(std::string(layout) + (tied ? " tied" : " untied"));
      SmallRun run{.layout = layout, .tied = tied};
      const SmallResult plain = run_small(run);
      run.vocab_multiple = 128;
      const SmallResult padded = run_small(run);
      for (size_t i = 0; i < plain.losses.size(); ++i) {
        EXPECT_NEAR(padded.losses[i] / plain.losses[i], 1, 1e-6) << "step " << i + 1;
      }
      EXPECT_LE(largest_error(plain.grads, padded.grads).error, 1e-6);
    }
  }
}

// Rows from `first` on have no target.
void masked_from(int64_t first, int step, int64_t row, int32_t* tokens, int32_t* targets) {
  small_row(step, row, tokens, targets);
  if (row >= first) {
    std::fill(targets, targets + kSmallSeqLen, -100);
  }
}

class MaskedShare : public testing::TestWithParam<std::string> {};

// The second replica has nothing to learn from, then all but the very first row is masked.
TEST_P(MaskedShare, IsAsOnOneRank) {
  for (const int64_t first : {kSmallRows / 2, int64_t{1}}) {
    SCOPED_TRACE(first);
    SmallRun run;
    run.read_row = [first](int step, int64_t row, int32_t* tokens, int32_t* targets) {
      masked_from(first, step, row, tokens, targets);
    };
    const SmallResult expected = run_small(run);
    run.layout = GetParam();
    const SmallResult actual = run_small(run);
    expect_f32_parity(expected, actual);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, MaskedShare,
                         testing::Values("dp2", "dp2.zero1", "dp8", "dp2.pp2", "dp2.tp2.sp"),
                         [](const testing::TestParamInfo<std::string>& param) {
                           return small_run_name({.layout = param.param});
                         });

TEST(MaskedRows, CountForNothing) {
  // Masked rows may hold any tokens.
  SmallRun run;
  run.layout = "dp2.zero1";
  run.read_row = [](int step, int64_t row, int32_t* tokens, int32_t* targets) {
    masked_from(5, step, row, tokens, targets);
  };
  const SmallResult expected = run_small(run);
  run.read_row = [](int step, int64_t row, int32_t* tokens, int32_t* targets) {
    masked_from(5, step, row, tokens, targets);
    if (row >= 5) {
      std::fill(tokens, tokens + kSmallSeqLen, 66);
    }
  };
  const SmallResult actual = run_small(run);
  EXPECT_EQ(actual.losses, expected.losses);
}

TEST(MaskedRows, OfTheWholeBatchAreRefused) {
  SmallRun run;
  run.layout = "dp2.pp2";
  run.read_row = [](int step, int64_t row, int32_t* tokens, int32_t* targets) {
    masked_from(0, step, row, tokens, targets);
  };
  try {
    run_small(run);
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message().find("no target token"), std::string::npos) << error.message();
  }
}

TEST(MicroBatches, OfAnySizeGiveTheSameRun) {
  SmallRun run;
  const SmallResult expected = run_small(run);
  for (const int64_t size : {2, 4, 16}) {
    SCOPED_TRACE(size);
    run.micro_batch_size = size;
    expect_f32_parity(expected, run_small(run));
  }
}

}  // namespace
}  // namespace plait
