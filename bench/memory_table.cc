// Device memory with and without ZeRO-1 and recomputation: what the ledger of the fullest rank
// measured over two steps, beside the estimate from the parameter and activation tables.
//
//   memory_table [--hidden 256] [--layers 8] [--seq 128]
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "train/memory_run.h"

namespace plait {
namespace {

struct Options {
  int64_t hidden = 256;
  int64_t layers = 8;
  int64_t seq_len = 128;
};

ModelConfig model_of(const Options& options) {
  ModelConfig model;
  model.family = ModelFamily::kQwen3;
  model.qk_norm = true;
  model.vocab_size = 4096;
  model.hidden_size = options.hidden;
  model.ffn_hidden_size = options.hidden * 11 / 4;
  model.num_layers = options.layers;
  model.num_heads = 8;
  model.num_kv_heads = 4;
  model.head_dim = options.hidden / 8;
  model.max_position_embeddings = options.seq_len;
  return model;
}

struct Row {
  std::string text;
  double state_bytes = 0;  // a parameter
  int64_t activations = 0;
};

std::string cell(int64_t measured, int64_t predicted) {
  return fmt::format(
      " {:9.3f} {:6.4f}", static_cast<double>(measured) / (1 << 20),
      predicted == measured ? 1.0 : static_cast<double>(measured) / static_cast<double>(predicted));
}

Row measure_row(const MemoryCase& c, const Options& options) {
  const EngineConfig config = memory_run_config(c, model_of(options), options.seq_len);
  const MemoryEstimate estimate = estimate_run(config);
  const std::vector<MemoryLedger::Totals> ranks = measure_memory(config);
  const auto fullest = std::ranges::max_element(
      ranks, {}, [](const auto& totals) { return totals.total_peak_bytes; });
  const MemoryLedger::Totals& totals = *fullest;
  const int stage =
      config.layout.mesh().coordinate(static_cast<int>(fullest - ranks.begin()), Axis::kPp);
  const StageMemory& expected = estimate.stages[static_cast<size_t>(stage)];
  Row row;
  row.state_bytes = measured_state_bytes(config, totals, stage);
  row.activations = peak(totals, MemoryCategory::kActivations);
  row.text =
      fmt::format("{:<20} {:<4} {:<9}", c.layout, dtype_name(c.dtype), recompute_name(c.recompute));
  const std::pair<MemoryCategory, const MemoryNumber*> categories[] = {
      {MemoryCategory::kWeights, &expected.weights},
      {MemoryCategory::kGradients, &expected.gradients},
      {MemoryCategory::kOptimizer, &expected.optimizer},
      {MemoryCategory::kActivations, &expected.activations},
      {MemoryCategory::kWorkspace, &expected.workspace}};
  for (const auto& [category, number] : categories) {
    row.text += cell(peak(totals, category), number->bytes);
  }
  row.text += cell(totals.total_peak_bytes, expected.total.bytes);
  const double closed_form = closed_form_state_bytes(config);
  row.text += fmt::format("  {:6.3f} {:6.3f} {:6.4f}", row.state_bytes, closed_form,
                          row.state_bytes / closed_form);
  return row;
}

void print_table(const Options& options) {
  std::printf(
      "MiB measured by the ledger of the fullest rank, and the ratio to what was predicted; states "
      "(weights,\ngradients, optimizer) in bytes a parameter: measured, closed form, "
      "ratio\n\n%-35s",
      "layout               type recompute");
  for (const char* name : {"weights", "gradients", "optimizer", "activat.", "workspace", "total"}) {
    std::printf(" %9s  ratio", name);
  }
  std::printf("  states   form  ratio\n");
  const auto print = [&](const MemoryCase& c) {
    Row row = measure_row(c, options);
    std::puts(row.text.c_str());
    std::fflush(stdout);
    return row;
  };
  std::string summary;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Row plain = print({.layout = "dp4", .dtype = dtype});
    print({.layout = "dp2.zero1", .dtype = dtype});
    const Row zero = print({.layout = "dp4.zero1", .dtype = dtype});
    const Row none = print({.layout = "tp2.sp", .dtype = dtype});
    const Row selective =
        print({.layout = "tp2.sp", .recompute = Recompute::kSelective, .dtype = dtype});
    const Row full = print({.layout = "tp2.sp", .recompute = Recompute::kFull, .dtype = dtype});
    print({.layout = "dp2.tp2.pp2.sp.zero1", .recompute = Recompute::kSelective, .dtype = dtype});
    const auto part = [&](const Row& row) {
      return static_cast<double>(row.activations) / static_cast<double>(none.activations);
    };
    summary += fmt::format(
        "{}: ZeRO-1 over 4 ranks leaves {:.3f} of the states; recomputation leaves {:.3f} "
        "(selective), {:.3f} (full) of the activations\n",
        dtype_name(dtype), zero.state_bytes / plain.state_bytes, part(selective), part(full));
  }
  std::printf("\n%s", summary.c_str());
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    int64_t* const target = flag == "--hidden"   ? &options.hidden
                            : flag == "--layers" ? &options.layers
                            : flag == "--seq"    ? &options.seq_len
                                                 : nullptr;
    if (target == nullptr) {
      throw_error(ErrorCode::kInvalidArgument,
                  "unknown flag {}; allowed are --hidden, --layers and --seq", flag);
    }
    *target = std::stoll(argv[i + 1]);
  }
  return options;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  try {
    plait::print_table(plait::parse(argc, argv));
    return 0;
  } catch (const plait::Error& error) {
    std::fprintf(stderr, "memory_table: %s\n", error.what());
    return plait::exit_code(error.code());
  }
}
