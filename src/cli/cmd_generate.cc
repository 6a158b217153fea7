#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "data/token_file.h"
#include "train/sample.h"

namespace plait {
namespace {

struct GenerateFlags {
  SampleOptions sample;
  std::string prompt = "The ";
};

int run_generate(GenerateFlags& flags) {
  for (const char c : flags.prompt) {
    flags.sample.prompt.push_back(static_cast<unsigned char>(c));
  }
  bool started = false;  // nothing on stdout if the source cannot be used
  sample_tokens(flags.sample, [&](int32_t token) {
    if (!started) {
      std::fputs(flags.prompt.c_str(), stdout);
      started = true;
    }
    if (token < kEndOfDocument) {
      std::fputc(token, stdout);
    } else {
      std::fputs("\n---\n", stdout);
    }
    std::fflush(stdout);
  });
  std::fputc('\n', stdout);
  return 0;
}

}  // namespace

void add_generate_command(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* generate = app.add_subcommand("generate", "text from a model trained on byte tokens");
  generate->footer("Example:\n  plait generate run --prompt 'The function ' --tokens 200");
  generate
      ->add_option("source", flags->sample.source,
                   "a run directory, a step-N folder, or an HF directory")
      ->required();
  generate->add_option("--prompt", flags->prompt, "text to go on from")->capture_default_str();
  generate->add_option("--tokens", flags->sample.num_tokens, "new tokens")->capture_default_str();
  generate->add_option("--temperature", flags->sample.temperature, "0: the most likely token")
      ->capture_default_str();
  generate->add_option("--top-k", flags->sample.top_k, "0: all")->capture_default_str();
  generate->add_option("--seed", flags->sample.seed, "of the choice")->capture_default_str();
  generate->add_option("--threads", flags->sample.threads, "0: all cores");
  generate->callback([flags, &chosen] { chosen = [flags] { return run_generate(*flags); }; });
}

}  // namespace plait
