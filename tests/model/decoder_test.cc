// The forward of inference against HF transformers, on every kind of layout, in chunks.
#include "model/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "checkpoint/hf_import.h"
#include "checkpoint/safetensors.h"
#include "comm/rank_runner.h"

namespace plait {
namespace {

std::string golden_directory(const std::string& model) {
  return std::string(std::getenv("PLAIT_TEST_DATA")) + "/goldens/" + model;
}

struct Case {
  std::string layout = "dp1";
  int64_t chunk = 1000;  // rows of a sequence in a step
  bool eager = false;
  int threads = 1;
  WeightFormat format = WeightFormat::kF32;
  DType dtype = DType::kF32;
};

// Logits of every position of every row, [rows, length, vocabulary].
std::vector<float> compute_logits(const std::string& directory, const Case& run,
                                  const std::vector<int64_t>& ids, int64_t length) {
  const ModelConfig config = load_model_config(directory);
  const HfImport import = open_hf_weights(directory, config);
  const int64_t rows = std::ssize(ids) / length;
  const int64_t blocks = (length + kKvBlockTokens - 1) / kKvBlockTokens;
  std::vector<float> all(static_cast<size_t>(std::ssize(ids) * config.vocab_size));
  RankRunnerOptions runner;
  const Layout layout = parse_layout(run.layout);
  runner.ranks = layout.world_size();
  runner.threads_per_rank = run.threads;
  run_ranks(runner, [&](World& world) {
    const ParallelContext context(layout, world);
    Decoder decoder(config, context,
                    load_decoder_weights(config, context, import.source,
                                         {.format = run.format, .progress = {}}),
                    {.activation_dtype = run.dtype,
                     .kv_dtype = run.dtype,
                     .num_blocks = blocks * rows,
                     .max_positions = length,
                     .max_rows = length * rows,
                     .max_runs = length * rows,
                     .vocab_limit = config.vocab_size,
                     .eager = run.eager});
    for (int64_t begin = 0; begin < length; begin += run.chunk) {
      const int64_t count = std::min(run.chunk, length - begin);
      std::vector<int32_t> tokens, positions, slots, tables, sampled;
      std::vector<AttentionRun> runs;
      for (int64_t row = 0; row < rows; ++row) {
        runs.push_back({.first_row = static_cast<int32_t>(tokens.size()),
                        .rows = static_cast<int32_t>(count),
                        .first_position = static_cast<int32_t>(begin),
                        .table = static_cast<int32_t>(row)});
        for (int64_t b = 0; b < blocks; ++b) {
          tables.push_back(static_cast<int32_t>(b * rows + row));  // interleaved
        }
        for (int64_t i = begin; i < begin + count; ++i) {
          sampled.push_back(static_cast<int32_t>(tokens.size()));
          tokens.push_back(static_cast<int32_t>(ids[static_cast<size_t>(row * length + i)]));
          positions.push_back(static_cast<int32_t>(i));
          slots.push_back(static_cast<int32_t>((i / kKvBlockTokens * rows + row) * kKvBlockTokens +
                                               i % kKvBlockTokens));
        }
      }
      decoder.forward({.tokens = tokens,
                       .positions = positions,
                       .slots = slots,
                       .runs = runs,
                       .block_tables = tables,
                       .table_stride = blocks,
                       .sampled_rows = sampled,
                       .want_logits = true});
      if (world.rank() != 0) {
        continue;
      }
      std::vector<int32_t> best(sampled.size());
      decoder.read_best(best);
      for (int64_t s = 0; s < std::ssize(sampled); ++s) {
        const int64_t position = (s / count) * length + begin + s % count;
        const std::span<float> out =
            std::span(all).subspan(static_cast<size_t>(position * config.vocab_size),
                                   static_cast<size_t>(config.vocab_size));
        decoder.read_logits(s, out);
        EXPECT_EQ(best[static_cast<size_t>(s)], std::ranges::max_element(out) - out.begin());
      }
    }
  });
  return all;
}

struct Golden {
  std::vector<int64_t> ids;
  int64_t length = 0;
  std::vector<float> logits;
};

Golden read_golden(const std::string& directory) {
  const SafetensorsFile file(directory + "/golden.safetensors");
  Golden golden;
  golden.ids = read_integers(file.at("input_ids"));
  golden.length = file.at("input_ids").shape[1];
  const SafeTensor& logits = file.at("logits");
  golden.logits.resize(static_cast<size_t>(logits.count()));
  copy_as_f32(logits, whole_tensor(logits), golden.logits);
  return golden;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double largest = 0;
  double error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    error = std::max(error, std::abs(static_cast<double>(got[i]) - expected[i]));
  }
  return error / largest;
}

class DecoderGolden : public testing::TestWithParam<std::string> {};

TEST_P(DecoderGolden, LogitsAgreeWithTransformers) {
  const std::string directory = golden_directory(GetParam());
  const Golden golden = read_golden(directory);
  const std::vector<float> plain = compute_logits(directory, {}, golden.ids, golden.length);
  EXPECT_LT(relative_error(plain, golden.logits), 1e-4);
  // The bits do not depend on chunks, threads, the prepared plan or the pipeline.
  for (const Case& run : {Case{.chunk = 1}, Case{.chunk = 7}, Case{.eager = true},
                          Case{.threads = 3}, Case{.layout = "pp2", .chunk = 13}}) {
    EXPECT_EQ(compute_logits(directory, run, golden.ids, golden.length), plain)
        << run.layout << " chunk " << run.chunk;
  }
  for (const char* layout : {"tp2", "tp2.pp2"}) {
    const Case run{.layout = layout, .chunk = 17};
    EXPECT_LT(
        relative_error(compute_logits(directory, run, golden.ids, golden.length), golden.logits),
        1e-4)
        << layout;
  }
}

TEST_P(DecoderGolden, OtherFormatsStayClose) {
  const std::string directory = golden_directory(GetParam());
  const Golden golden = read_golden(directory);
  const auto error = [&](const Case& run) {
    return relative_error(compute_logits(directory, run, golden.ids, golden.length), golden.logits);
  };
  EXPECT_LT(error({.format = WeightFormat::kBF16, .dtype = DType::kBF16}), 0.06);
  EXPECT_LT(error({.format = WeightFormat::kInt8}), 0.05);
  EXPECT_LT(error({.layout = "tp2", .format = WeightFormat::kInt8}), 0.05);
}

INSTANTIATE_TEST_SUITE_P(Goldens, DecoderGolden,
                         testing::Values("tiny-qwen3", "tiny-llama", "tiny-qwen2"),
                         [](const testing::TestParamInfo<std::string>& param) {
                           std::string name = param.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace plait
