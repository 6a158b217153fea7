#include "checkpoint/hf_weights.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "support/test_files.h"

namespace plait {
namespace {

void write_shard(const std::string& path, const std::vector<std::string>& names) {
  std::vector<TensorDecl> decls;
  for (const std::string& name : names) {
    decls.push_back({.name = name, .dtype = DType::kF32, .shape = {1}});
  }
  SafetensorsWriter writer(path, decls, {{"format", "pt"}});
  const float value = 2.5F;
  for (size_t i = 0; i < names.size(); ++i) {
    writer.write(std::as_bytes(std::span(&value, 1)));
  }
  writer.finish();
}

void expect_error(const std::string& directory, ErrorCode code, const std::string& part) {
  try {
    const HfWeights weights(directory);
    ADD_FAILURE() << "accepted, expected '" << part << "'";
  } catch (const Error& error) {
    EXPECT_STREQ(error_code_name(error.code()), error_code_name(code)) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

class HfWeightsTest : public ::testing::Test {
 protected:
  void index(const std::string& weight_map) {
    write_file_atomic(folder_.file("model.safetensors.index.json"),
                      R"({"metadata":{"total_size":8},"weight_map":)" + weight_map + "}");
  }
  TestFolder folder_;
};

TEST_F(HfWeightsTest, ReadsASingleFile) {
  write_shard(folder_.file("model.safetensors"), {"b", "a"});
  const HfWeights weights(folder_.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(weights.at("a").count(), 1);
  EXPECT_EQ(weights.find("c"), nullptr);
  EXPECT_THROW(weights.at("c"), Error);
}

TEST_F(HfWeightsTest, ReadsShards) {
  write_shard(folder_.file("m-1.safetensors"), {"a", "b"});
  write_shard(folder_.file("m-2.safetensors"), {"c"});
  index(R"({"a":"m-1.safetensors","c":"m-2.safetensors","b":"m-1.safetensors"})");
  const HfWeights weights(folder_.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b", "c"}));
  std::vector<float> value(1);
  copy_as_f32(weights.at("c"), whole_tensor(weights.at("c")), value);
  EXPECT_EQ(value[0], 2.5F);
}

TEST_F(HfWeightsTest, BadIndexesAreNamed) {
  expect_error(folder_.path(), ErrorCode::kNotFound, "has neither");
  write_shard(folder_.file("m-1.safetensors"), {"a", "b"});
  write_shard(folder_.file("m-2.safetensors"), {"c", "a"});
  index(R"({"a":"m-1.safetensors","b":"m-1.safetensors","c":"m-9.safetensors"})");
  expect_error(folder_.path(), ErrorCode::kNotFound, "m-9.safetensors");
  index(R"({"a":"m-1.safetensors","b":"m-1.safetensors","c":"m-2.safetensors"})");
  expect_error(folder_.path(), ErrorCode::kCorruptData, "which has it too");
  index(R"({"a":"m-1.safetensors","a":"m-2.safetensors","b":"m-1.safetensors"})");
  expect_error(folder_.path(), ErrorCode::kCorruptData, "listed twice");
  index(R"({"a":"m-1.safetensors","b":"m-1.safetensors","d":"m-1.safetensors"})");
  expect_error(folder_.path(), ErrorCode::kCorruptData, "'d' should be in");
  index(R"({"a":"m-1.safetensors"})");
  expect_error(folder_.path(), ErrorCode::kCorruptData, "'b' of 'm-1.safetensors' is not listed");
  index(R"({"a":"../m-1.safetensors"})");
  expect_error(folder_.path(), ErrorCode::kCorruptData, "no plain file name");
  index(R"({"a":1})");
  expect_error(folder_.path(), ErrorCode::kCorruptData, "weight_map");
  index("[]");
  expect_error(folder_.path(), ErrorCode::kCorruptData, "weight_map");
}

TEST_F(HfWeightsTest, BrokenJsonIsNamed) {
  const std::string path = folder_.file("model.safetensors.index.json");
  write_file_atomic(path, "{\"weight_map\"");
  expect_error(folder_.path(), ErrorCode::kCorruptData, "index.json: byte");
  write_file_atomic(path, "{\"weight_map\":" + std::string(100000, '['));
  expect_error(folder_.path(), ErrorCode::kCorruptData, "nested deeper");
  write_file_atomic(path, "[1]");
  expect_error(folder_.path(), ErrorCode::kCorruptData, "weight_map");
}

TEST_F(HfWeightsTest, ATornShardIsNamed) {
  write_file_atomic(folder_.file("model.safetensors"), "abc");
  expect_error(folder_.path(), ErrorCode::kCorruptData, "model.safetensors: byte 3");
}

}  // namespace
}  // namespace plait
