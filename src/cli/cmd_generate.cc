#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/terminal_model.h"

namespace plait {
namespace {

struct GenerateFlags {
  EngineFlags engine;
  SamplingParams sampling;
  std::string source;
  std::string prompt = "The ";
  uint64_t seed = 1;
  bool ids = false;
};

int run_generate(GenerateFlags& flags) {
  flags.sampling.seed = flags.seed;
  TerminalModel model(flags.source, flags.engine);
  if (model.follower()) {
    return 0;
  }
  bool started = false;  // nothing on stdout if the prompt cannot be used
  const auto print = [&](std::string_view text) {
    if (!started && !flags.ids) {
      std::fputs(flags.prompt.c_str(), stdout);
      started = true;
    }
    std::fwrite(text.data(), 1, flags.ids ? 0 : text.size(), stdout);
    std::fflush(stdout);
  };
  const std::vector<int32_t> tokens =
      model.answer(model.encode(flags.prompt), flags.sampling, print);
  for (size_t i = 0; flags.ids && i < tokens.size(); ++i) {
    std::printf("%s%d", i > 0 ? " " : "", tokens[i]);
  }
  std::fputc('\n', stdout);
  return 0;
}

}  // namespace

void add_generate_command(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<GenerateFlags>();
  flags->sampling.temperature = 0.8F;
  flags->sampling.top_k = 40;
  flags->sampling.max_tokens = 64;
  CLI::App* generate = app.add_subcommand("generate", "text from a model");
  generate->footer(
      "Examples:\n"
      "  plait generate models/qwen3-0.6b --prompt 'The capital of France is' --temperature 0\n"
      "  plait generate run --prompt 'The function ' --tokens 200");
  generate
      ->add_option("source,--model", flags->source,
                   "an HF directory, a GGUF file, a run directory or a step-N folder")
      ->required();
  generate->add_option("--prompt", flags->prompt, "text to go on from")->capture_default_str();
  SamplingParams& sampling = flags->sampling;
  generate->add_option("--tokens,--max-tokens", sampling.max_tokens, "most new tokens")
      ->capture_default_str();
  generate->add_option("--temperature", sampling.temperature, "0: the most likely token")
      ->capture_default_str();
  generate->add_option("--top-k", sampling.top_k, "0: all")->capture_default_str();
  generate->add_option("--top-p", sampling.top_p, "1: all")->capture_default_str();
  generate->add_option("--min-p", sampling.min_p, "0: all")->capture_default_str();
  generate->add_option("--seed", flags->seed, "of the choice")->capture_default_str();
  generate->add_flag("--ignore-eos", sampling.ignore_eos, "go on behind the end of the text");
  generate->add_flag("--ids", flags->ids, "print the new tokens' ids, not the text");
  add_engine_options(*generate, flags->engine);
  generate->callback([flags, &chosen] { chosen = [flags] { return run_generate(*flags); }; });
}

}  // namespace plait
