#include "data/jsonl_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "support/test_files.h"

namespace plait {
namespace {

class JsonlRowsTest : public ::testing::Test {
 protected:
  JsonlRows open(const std::string& content, const JsonlRowsOptions& options) {
    write_file_atomic(folder_.file("rows.jsonl"), content);
    return JsonlRows(folder_.file("rows.jsonl"), options);
  }

  void expect_error(const std::string& content, const std::string& part) {
    try {
      open(content, {.seq_len = 4, .vocab_size = 100});
      ADD_FAILURE() << "accepted, expected '" << part << "'";
    } catch (const Error& error) {
      EXPECT_EQ(exit_code(error.code()), 2);
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
      EXPECT_NE(error.message().find("rows.jsonl"), std::string::npos) << error.message();
    }
  }

  TestFolder folder_;
};

constexpr int32_t kNone = kIgnoredLabel;

TEST_F(JsonlRowsTest, ShiftsMasksAndPads) {
  const JsonlRows rows = open(
      "{\"input_ids\": [1, 2, 3], \"labels\": [-100, -100, 3]}\r\n"
      "\n"
      "{\"input_ids\": [5, 6, 7, 8, 9]}",
      {.seq_len = 4, .val_fraction = 0.5, .pad_token = 99});
  EXPECT_EQ(rows.num_train_rows(), 1);
  EXPECT_EQ(rows.num_val_rows(), 1);
  std::vector<int32_t> tokens(4);
  std::vector<int32_t> labels(4);
  rows.train_row(7, {tokens, labels});
  EXPECT_EQ(tokens, (std::vector<int32_t>{1, 2, 3, 99}));
  EXPECT_EQ(labels, (std::vector<int32_t>{kNone, 3, kNone, kNone}));
  rows.val_row(0, {tokens, labels});
  EXPECT_EQ(tokens, (std::vector<int32_t>{5, 6, 7, 8}));
  EXPECT_EQ(labels, (std::vector<int32_t>{6, 7, 8, 9}));
}

TEST_F(JsonlRowsTest, LongRowsAreRefusedOrCut) {
  const std::string content = "{\"input_ids\": [1, 2, 3, 4, 5, 6]}";
  expect_error(content, "line 1: 6 tokens do not fit into seq_len 4");
  const JsonlRows rows = open(content, {.seq_len = 4, .truncate = true});
  std::vector<int32_t> tokens(4);
  std::vector<int32_t> labels(4);
  rows.train_row(0, {tokens, labels});
  EXPECT_EQ(labels, (std::vector<int32_t>{2, 3, 4, 5}));
}

TEST_F(JsonlRowsTest, BadLinesAreNamed) {
  expect_error("", "holds no rows");
  expect_error("\n \n", "holds no rows");
  expect_error("{\"input_ids\": [1, 2]}\n{", "line 2");
  expect_error("[1]", "line 1: a JSON object");
  expect_error("{\"ids\": [1]}", "input_ids is missing");
  expect_error("{\"input_ids\": 1}", "a list of token ids");
  expect_error("{\"input_ids\": [1.5]}", "an integer");
  expect_error("{\"input_ids\": [1, 100]}", "holds 100");
  expect_error("{\"input_ids\": [1, -100]}", "holds -100");
  expect_error("{\"input_ids\": [1, 2], \"labels\": [1, 100]}", "-100 for no loss");
  expect_error("{\"input_ids\": [1, 2], \"labels\": [1, -1]}", "holds -1");
  expect_error("{\"input_ids\": [1, 2], \"labels\": [1]}", "2 input_ids, but 1 labels");
  expect_error("{\"input_ids\": [1, 2], \"labels\": [1, -100]}", "no training row has a target");
  expect_error("{\"input_ids\": []}", "no training row has a target");
}

TEST_F(JsonlRowsTest, ContentIdFollowsTheRows) {
  const auto id = [&](const std::string& content) {
    return open(content, {.seq_len = 4}).content_id();
  };
  const std::string first = id("{\"input_ids\": [1, 2]}\n{\"input_ids\": [3]}\n");
  EXPECT_EQ(id("{\"input_ids\":[1,2]}\n\n{\"input_ids\":[3]}"), first);
  EXPECT_NE(id("{\"input_ids\": [1, 2], \"labels\": [-100, 2]}\n{\"input_ids\": [3]}\n"), first);
  EXPECT_NE(id("{\"input_ids\": [1]}\n{\"input_ids\": [2, 3]}\n"), first);
  EXPECT_NE(id("{\"input_ids\": [1, 2]}\n{\"input_ids\": [4]}\n"), first);
}

}  // namespace
}  // namespace plait
