#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "checkpoint/random_model.h"
#include "cli/commands.h"
#include "spec/model_catalog.h"
#include "spec/parameter_table.h"

namespace plait {
namespace {

struct MakeModelFlags {
  std::string shape = "tiny";
  std::string out;
  std::string dtype = "bf16";
  std::string format = "safetensors";
  uint64_t seed = 1;
};

int run_make_model(const MakeModelFlags& flags) {
  if (flags.dtype != "bf16" && flags.dtype != "f32") {
    throw_error(ErrorCode::kInvalidArgument, "--dtype is '{}'; it must be bf16 or f32",
                flags.dtype);
  }
  const ModelConfig config = flags.shape == "tiny" ? tiny_model_config() : find_model(flags.shape);
  RandomModelOptions options;
  options.seed = flags.seed;
  options.dtype = flags.dtype == "bf16" ? DType::kBF16 : DType::kF32;
  if (flags.format == "gguf") {
    write_random_gguf(config, flags.out, options);
  } else {
    write_random_model(config, flags.out, options);
  }
  const int64_t parameters = count_parameters(make_parameter_table(config, {}));
  std::printf("%s: %.3g parameters with random values, %s\n", flags.out.c_str(),
              static_cast<double>(parameters),
              format_bytes(parameters * dtype_size(options.dtype)).c_str());
  return 0;
}

}  // namespace

void add_make_model_command(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<MakeModelFlags>();
  CLI::App* make = app.add_subcommand(
      "make-model", "write a model with random weights and a byte tokenizer, for benchmarks");
  make->footer(
      "Examples:\n"
      "  plait make-model --shape qwen3-0.6b --out models/random-0.6b\n"
      "  plait make-model --shape qwen3-0.6b --format gguf --out models/random-0.6b.gguf");
  make->add_option("--shape", flags->shape,
                   "tiny, a name of the model catalogue (qwen3-0.6b, qwen3-8b, ...), or a "
                   "config.json")
      ->capture_default_str();
  make->add_option("--out", flags->out, "the directory, or the GGUF file, to write")->required();
  make->add_option("--format", flags->format, "safetensors (an HF directory) or gguf (one file)")
      ->capture_default_str()
      ->check(CLI::IsMember({"safetensors", "gguf"}));
  make->add_option("--dtype", flags->dtype, "bf16 or f32")->capture_default_str();
  make->add_option("--seed", flags->seed, "of the weights")->capture_default_str();
  make->callback([flags, &chosen] { chosen = [flags] { return run_make_model(*flags); }; });
}

}  // namespace plait
