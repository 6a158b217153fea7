// HF directories in and out: the weights of a golden model pass through a sharded checkpoint
// unchanged.
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/hf_weights.h"
#include "checkpoint/sharded_checkpoint.h"
#include "comm/rank_runner.h"
#include "support/test_files.h"

namespace plait {
namespace {

std::string golden(const std::string& name) {
  const char* data = std::getenv("PLAIT_TEST_DATA");
  return std::string(data == nullptr ? "tests/data" : data) + "/goldens/" + name;
}

// Saves the weights of the HF directory as step 1.
void import_and_save(const std::string& hf, const std::string& layout_text,
                     const std::string& directory) {
  const ModelConfig model = load_model_config(hf);
  const Layout layout = parse_layout(layout_text);
  const HfImport import = open_hf_weights(hf, model);
  EXPECT_TRUE(import.unused.empty());
  RankRunnerOptions runner;
  runner.ranks = layout.world_size();
  runner.threads_per_rank = 1;
  run_ranks(runner, [&](World& world) {
    const ParallelContext context(layout, world);
    ParameterStore store(model, context, {.vocab_multiple = 8});
    ShardedAdamw optimizer(store, context, {}, layout.zero >= 1);
    optimizer.set_weights(store.build_image(import.source));
    save_checkpoint({store, optimizer, context, model}, {.directory = directory}, {.step = 1});
  });
}

// Every tensor of `expected` is in `actual` with the same values, rounded if `dtype` is bf16.
void expect_same_weights(const std::string& expected, const std::string& actual, DType dtype) {
  const HfWeights a(expected);
  const HfWeights b(actual);
  EXPECT_EQ(a.names(), b.names());
  for (const std::string& name : a.names()) {
    const SafeTensor& left = a.at(name);
    const SafeTensor& right = b.at(name);
    EXPECT_EQ(left.shape, right.shape);
    EXPECT_EQ(right.dtype, dtype);
    std::vector<float> values(static_cast<size_t>(left.count()));
    std::vector<float> others(values.size());
    copy_as_f32(left, whole_tensor(left), values);
    copy_as_f32(right, whole_tensor(right), others);
    if (dtype == DType::kBF16) {
      for (float& value : values) {
        value = to_float(to_bf16(value));
      }
    }
    EXPECT_EQ(values, others) << name;
  }
}

class HfDirectory : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(HfDirectory, ComesBackUnchanged) {
  const TestFolder folder;
  const std::string hf = golden(std::get<0>(GetParam()));
  import_and_save(hf, std::get<1>(GetParam()), folder.file("run"));
  const std::string checkpoint = checkpoint_path(folder.file("run"), 1);
  export_hf({.checkpoint = checkpoint, .output = folder.file("f32") + "/"});
  expect_same_weights(hf, folder.file("f32"), DType::kF32);
  export_hf({.checkpoint = checkpoint,
             .output = folder.file("bf16"),
             .dtype = DType::kBF16,
             .shard_bytes = 20000});
  EXPECT_TRUE(std::filesystem::exists(folder.file("bf16/model.safetensors.index.json")));
  expect_same_weights(hf, folder.file("bf16"), DType::kBF16);
  for (const char* output : {"f32", "bf16"}) {
    check_same_model(load_model_config(folder.file(output)), load_model_config(hf), output);
  }
  EXPECT_EQ(read_json(folder.file("bf16/config.json"))["dtype"], "bfloat16");
  EXPECT_EQ(SafetensorsFile(folder.file("f32/model.safetensors")).metadata().at("format"), "pt");
}
INSTANTIATE_TEST_SUITE_P(Goldens, HfDirectory,
                         testing::Values(std::tuple("tiny-qwen3", "dp2.tp2.zero1"),
                                         std::tuple("tiny-qwen3", "pp2"),
                                         std::tuple("tiny-llama", "tp2.pp2.sp"),
                                         std::tuple("tiny-qwen2", "dp2.pp2.zero1")));

TEST(HfExport, RefusesAFolderWithContent) {
  const TestFolder folder;
  import_and_save(golden("tiny-llama"), "dp1", folder.path());
  std::ofstream(folder.file("file")) << "x";
  EXPECT_THROW(
      export_hf({.checkpoint = checkpoint_path(folder.path(), 1), .output = folder.path()}), Error);
  EXPECT_THROW(
      export_hf({.checkpoint = checkpoint_path(folder.path(), 1), .output = folder.file("file")}),
      Error);
  EXPECT_EQ(read_file(folder.file("file")), "x");
}

// A copy of a golden's tensors with changes.
class HfImportErrors : public testing::Test {
 protected:
  void write(const std::string& skip, const std::string& rename) {
    const SafetensorsFile file(golden("tiny-qwen3") + "/model.safetensors");
    std::vector<TensorDecl> tensors;
    std::string data;
    for (const SafeTensor& tensor : file.tensors()) {
      if (tensor.name == skip) {
        continue;
      }
      std::vector<int64_t> shape = tensor.shape;
      if (tensor.name == rename) {
        shape = {1, tensor.count()};
      }
      tensors.push_back({.name = tensor.name, .dtype = *tensor.dtype, .shape = shape});
      data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    }
    tensors.push_back({.name = "extra.weight", .dtype = DType::kF32, .shape = {1}});
    tensors.push_back({.name = "lm_head.weight", .dtype = DType::kF32, .shape = {1}});
    tensors.push_back({.name = "model.layers.0.self_attn.rotary_emb.inv_freq",
                       .dtype = DType::kF32,
                       .shape = {1}});
    data.append(12, '\0');
    SafetensorsWriter writer(folder_.file("model.safetensors"), tensors, {});
    writer.write(std::as_bytes(std::span(data)));
    writer.finish();
  }

  std::string problem() {
    try {
      open_hf_weights(folder_.path(), load_model_config(golden("tiny-qwen3")));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
      return error.message();
    }
    return "";
  }

  TestFolder folder_;
};

TEST_F(HfImportErrors, NameTensorAndFile) {
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  write(name, "");
  EXPECT_NE(problem().find(name), std::string::npos) << problem();
  EXPECT_NE(problem().find("model.safetensors"), std::string::npos) << problem();
  write("", name);
  EXPECT_NE(problem().find("'" + name + "' has the shape [1, "), std::string::npos) << problem();
  EXPECT_NE(problem().find("model.safetensors"), std::string::npos) << problem();
}

TEST_F(HfImportErrors, ListTensorsThatAreNotUsed) {
  write("", "");
  const HfImport import = open_hf_weights(folder_.path(), load_model_config(golden("tiny-qwen3")));
  EXPECT_EQ(import.unused, std::vector<std::string>{"extra.weight"});
}

}  // namespace
}  // namespace plait
