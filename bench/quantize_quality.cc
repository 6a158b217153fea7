// What int8 weights cost: perplexity and agreement of the most likely token on a text, against the
// same model in f32.
//
//   quantize_quality MODEL TEXT [TOKENS]      MODEL: an HF directory or a GGUF file
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/model_text.h"
#include "comm/rank_runner.h"
#include "model/decoder.h"
#include "serve/served_model.h"

namespace plait {
namespace {

constexpr int64_t kWindow = 256;

struct Score {
  double loss = 0;  // sum of -log p of the next token
  int64_t count = 0;
  std::vector<int32_t> best;
};

double log_sum_exp(const std::vector<float>& logits) {
  const float top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit - top));
  }
  return static_cast<double>(top) + std::log(sum);
}

// Windows of kWindow tokens, each from an empty cache.
Score score(const ServedModel& model, const std::vector<int32_t>& tokens, WeightFormat format) {
  Score result;
  run_ranks({}, [&](World& world) {
    const ParallelContext context(Layout{}, world);
    Decoder decoder(model.config, context,
                    load_decoder_weights(model.config, context, model.source,
                                         {.format = format, .progress = {}}),
                    {.num_blocks = kWindow / kKvBlockTokens,
                     .max_positions = kWindow,
                     .max_rows = kWindow,
                     .max_runs = kWindow,
                     .vocab_limit = model.config.vocab_size});
    std::vector<int32_t> rows, tables;
    for (int32_t i = 0; i < kWindow; ++i) {
      rows.push_back(i);
    }
    for (int32_t i = 0; i < kWindow / kKvBlockTokens; ++i) {
      tables.push_back(i);
    }
    const AttentionRun run{.first_row = 0, .rows = kWindow, .first_position = 0, .table = 0};
    std::vector<float> logits(static_cast<size_t>(model.config.vocab_size));
    std::vector<int32_t> best(kWindow);
    for (size_t begin = 0; begin + kWindow <= tokens.size(); begin += kWindow) {
      const auto window = std::span(tokens).subspan(begin, kWindow);
      decoder.forward({.tokens = window,
                       .positions = rows,
                       .slots = rows,
                       .runs = {&run, 1},
                       .block_tables = tables,
                       .table_stride = std::ssize(tables),
                       .sampled_rows = rows,
                       .want_logits = true});
      decoder.read_best(best);
      result.best.insert(result.best.end(), best.begin(), best.end());
      for (int64_t i = 0; i + 1 < kWindow; ++i) {
        decoder.read_logits(i, logits);
        const auto next = static_cast<size_t>(window[static_cast<size_t>(i + 1)]);
        result.loss += log_sum_exp(logits) - static_cast<double>(logits[next]);
        ++result.count;
      }
    }
  });
  return result;
}

int run(const std::string& path, const std::string& text, size_t most) {
  const ServedModel model = open_served_model(path);
  std::vector<int32_t> tokens = load_model_text(path).tokenizer->encode(read_file(text));
  tokens.resize(std::min(tokens.size(), most));
  const Score plain = score(model, tokens, WeightFormat::kF32);
  const Score int8 = score(model, tokens, WeightFormat::kInt8);
  int64_t equal = 0;
  for (size_t i = 0; i < plain.best.size(); ++i) {
    equal += plain.best[i] == int8.best[i] ? 1 : 0;
  }
  const double before = std::exp(plain.loss / static_cast<double>(plain.count));
  const double after = std::exp(int8.loss / static_cast<double>(int8.count));
  std::printf("%zu tokens: perplexity f32 %.4f, int8 %.4f (%+.2f %%); same best token %.2f %%\n",
              plain.best.size(), before, after, 100 * (after / before - 1),
              100.0 * static_cast<double>(equal) / static_cast<double>(plain.best.size()));
  return 0;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "quantize_quality MODEL TEXT [TOKENS]\n");
    return 2;
  }
  try {
    return plait::run(argv[1], argv[2], argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 4096);
  } catch (const plait::Error& error) {
    std::fprintf(stderr, "quantize_quality: %s\n", error.what());
    return plait::exit_code(error.code());
  }
}
