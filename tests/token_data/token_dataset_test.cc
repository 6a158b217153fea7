#include "data/token_dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "support/test_files.h"
#include "support/token_files.h"

namespace plait {
namespace {

struct RowValues {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;
};

RowValues train_row(const RowSource& source, int64_t sample) {
  const auto length = static_cast<size_t>(source.seq_len());
  RowValues values{std::vector<int32_t>(length), std::vector<int32_t>(length)};
  source.train_row(sample, {values.tokens, values.labels});
  return values;
}

RowValues val_row(const RowSource& source, int64_t index) {
  const auto length = static_cast<size_t>(source.seq_len());
  RowValues values{std::vector<int32_t>(length), std::vector<int32_t>(length)};
  source.val_row(index, {values.tokens, values.labels});
  return values;
}

class TokenDatasetTest : public ::testing::Test {
 protected:
  // Tokens 0, 1, 2, ... in documents of these lengths.
  std::string make(const std::vector<int32_t>& lengths) {
    std::vector<uint16_t> tokens(
        static_cast<size_t>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})));
    std::iota(tokens.begin(), tokens.end(), uint16_t{0});
    write_file_atomic(folder_.file("t.bin"), raw_bytes(tokens));
    write_file_atomic(folder_.file("t.idx"), index_bytes({.lengths = lengths}));
    return folder_.file("t");
  }

  void expect_error(const std::string& path, const TokenDatasetOptions& options,
                    const std::string& part) {
    try {
      const TokenDataset data(path, options);
      ADD_FAILURE() << "accepted, expected '" << part << "'";
    } catch (const Error& error) {
      EXPECT_EQ(exit_code(error.code()), 2);
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  }

  TestFolder folder_;
};

TEST_F(TokenDatasetTest, EachEpochHasEveryTrainingWindowOnce) {
  // 10 windows of 4 tokens from 41, the last 2 for validation.
  const TokenDataset data(make({41}), {.seq_len = 4, .seed = 5, .val_fraction = 0.2});
  EXPECT_EQ(data.num_train_rows(), 8);
  EXPECT_EQ(data.num_val_rows(), 2);
  std::vector<std::vector<int32_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> firsts;
    for (int64_t i = 0; i < 8; ++i) {
      const RowValues row = train_row(data, epoch * 8 + i);
      for (size_t t = 0; t < 4; ++t) {
        EXPECT_EQ(row.tokens[t], row.tokens[0] + static_cast<int32_t>(t));
        EXPECT_EQ(row.labels[t], row.tokens[t] + 1);
      }
      firsts.push_back(row.tokens[0]);
    }
    orders.push_back(firsts);
    std::sort(firsts.begin(), firsts.end());
    EXPECT_EQ(firsts, (std::vector<int32_t>{0, 4, 8, 12, 16, 20, 24, 28}));
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  EXPECT_EQ(val_row(data, 0).tokens, (std::vector<int32_t>{32, 33, 34, 35}));
  EXPECT_EQ(val_row(data, 1).labels, (std::vector<int32_t>{37, 38, 39, 40}));
}

TEST_F(TokenDatasetTest, ASampleDependsOnSeedAndNumberAlone) {
  const std::string path = make({1001});
  const TokenDataset first(path, {.seq_len = 10, .seed = 5});
  const TokenDataset second(path, {.seq_len = 10, .seed = 5});
  const TokenDataset other(path, {.seq_len = 10, .seed = 6});
  std::vector<std::vector<int32_t>> forward;
  for (int64_t sample = 0; sample < 250; ++sample) {
    forward.push_back(train_row(first, sample).tokens);
  }
  int same = 0;
  for (int64_t sample = 249; sample >= 0; --sample) {  // as after a resume, and across epochs
    EXPECT_EQ(train_row(second, sample).tokens, forward[static_cast<size_t>(sample)]);
    same += train_row(other, sample).tokens == forward[static_cast<size_t>(sample)] ? 1 : 0;
  }
  EXPECT_LT(same, 25);
}

TEST_F(TokenDatasetTest, DocumentStartsCanBeMasked) {
  const std::string path = make({3, 1, 5, 4});  // documents start at tokens 3, 4 and 9
  const TokenDatasetOptions options = {
      .seq_len = 4, .seed = 0, .val_fraction = 0, .mask_document_starts = true};
  const TokenDataset data(path, options);
  EXPECT_EQ(data.num_val_rows(), 0);
  ASSERT_EQ(data.num_train_rows(), 3);
  std::set<std::vector<int32_t>> labels;
  for (int64_t sample = 0; sample < 3; ++sample) {
    labels.insert(train_row(data, sample).labels);
  }
  const std::set<std::vector<int32_t>> expected = {
      {1, 2, kIgnoredLabel, kIgnoredLabel}, {5, 6, 7, 8}, {kIgnoredLabel, 10, 11, 12}};
  EXPECT_EQ(labels, expected);
}

TEST_F(TokenDatasetTest, ImpossibleSizesSayWhatWouldWork) {
  const std::string path = make({41});
  EXPECT_EQ(TokenDataset(path, {.seq_len = 20}).num_train_rows(), 1);
  expect_error(path, {.seq_len = 21}, "seq_len 20 or less would work");
  EXPECT_EQ(TokenDataset(path, {.seq_len = 40, .val_fraction = 0}).num_train_rows(), 1);
  expect_error(path, {.seq_len = 41, .val_fraction = 0}, "seq_len 40 or less would work");
  expect_error(path, {.seq_len = 0}, "seq_len 0");
  expect_error(path, {.seq_len = INT64_MAX}, "41 tokens");
  expect_error(path, {.seq_len = 4, .val_fraction = 1}, "val_fraction 1");
  expect_error(path, {.seq_len = 4, .val_fraction = -0.5}, "val_fraction -0.5");
  expect_error(make({}), {.seq_len = 4}, "holds no tokens");
  expect_error(make({1}), {.seq_len = 4}, "more text is needed");
}

TEST_F(TokenDatasetTest, TokensOutsideTheVocabularyAreNamed) {
  const std::string path = make({41});
  EXPECT_NO_THROW(TokenDataset(path, {.seq_len = 4, .vocab_size = 41}));
  expect_error(path, {.seq_len = 4, .vocab_size = 40}, "t.bin: byte 80: token 40 is 40");
}

TEST(ValidationCount, IsAtLeastOneAndNeverAll) {
  EXPECT_EQ(validation_count(100, 0), 0);
  EXPECT_EQ(validation_count(100, 0.02), 2);
  EXPECT_EQ(validation_count(10, 0.02), 1);
  EXPECT_EQ(validation_count(1, 0.02), 0);
  EXPECT_EQ(validation_count(2, 0.99), 1);
}

}  // namespace
}  // namespace plait
