#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "plan/check.h"
#include "plan/check_report.h"

namespace plait {
namespace {

struct PlanCheckFlags {
  std::vector<std::string> words;
  std::vector<std::string> settings;
  CheckOptions options;
  std::string cluster;
  bool json = false;
};

void apply_settings(PlanCheckFlags& flags) {
  for (const std::string& setting : flags.settings) {
    const size_t equals = setting.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw_error(ErrorCode::kInvalidArgument, "set={}: must be NAME=VALUE, or 1=VALUE for $1",
                  setting);
    }
    flags.options.read.shell.settings[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
}

void print(const CheckReport& report, bool json) {
  std::fputs((json ? check_report_json(report) : check_report_text(report)).c_str(), stdout);
}

// One after the other; returns the largest status. As JSON: a list, without those that cannot be
// read.
int check_files(const PlanCheckFlags& flags) {
  int status = 0;
  const char* before = flags.json ? "[" : "";
  for (const std::string& path : flags.words) {
    try {
      const CheckReport report = check_file(path, flags.options);
      std::fputs(before, stdout);
      print(report, flags.json);
      before = flags.json ? "," : "\n";
      status = std::max(status, report.ok() ? 0 : 1);
    } catch (const Error& error) {
      std::fprintf(stderr, "plait: %s\n", error.what());
      status = std::max(status, exit_code(error.code()));
    }
  }
  if (flags.json) {
    std::puts(*before == '[' ? "[]" : "]");
  }
  return status;
}

int run_check(PlanCheckFlags& flags) {
  apply_settings(flags);
  if (!flags.cluster.empty()) {
    flags.options.cluster = load_cluster(flags.cluster);
  }
  if (flags.words.size() > 1 && std::ranges::all_of(flags.words, [](const std::string& word) {
        std::error_code ignored;
        return std::filesystem::is_regular_file(word, ignored);
      })) {
    return check_files(flags);
  }
  const bool is_file = flags.words.size() == 1 && !flags.words[0].starts_with("-");
  const CheckReport report = is_file ? check_file(flags.words[0], flags.options)
                                     : check_arguments(flags.words, flags.options);
  print(report, flags.json);
  return report.ok() ? 0 : 1;
}

}  // namespace

void add_plan_check_command(CLI::App& plan, Command& chosen) {
  auto flags = std::make_shared<PlanCheckFlags>();
  CLI::App* check = plan.add_subcommand(
      "check", "find what contradicts itself in a launch file; nothing in it is executed");
  check->footer(
      "Reads launch scripts of Megatron-LM, MindSpeed-LLM, ms-swift, LLaMA-Factory, DeepSpeed and "
      "vLLM, MindFormers and LLaMA-Factory YAML, DeepSpeed JSON, Kubernetes manifests, and flags "
      "or a command after --.\n"
      "Exit status: 0 no error found; 1 errors, or a stage that does not fit; 2 it cannot be "
      "read.\n"
      "Examples:\n"
      "  plait plan check pretrain_llama2_13b.sh\n"
      "  plait plan check train.sh --set NNODES=4 --set 1=/data --json\n"
      "  plait plan check --devices 16 -- --tensor-model-parallel-size 8 --num-layers 46");
  ReadOptions& read = flags->options.read;
  check->add_option("file", flags->words, "launch files, or flags after --")->required();
  check->add_option("--set", flags->settings,
                    "NAME=VALUE of a variable that the script does not set, 1=VALUE for $1");
  check->add_option("--devices", read.devices, "devices, where the file does not tell")
      ->check(CLI::Range(1, 1000000));
  check->add_option("--model", read.model, "catalogue name, HF config.json or its directory");
  check->add_option("--seq", read.seq_len, "tokens a row, where the file does not tell")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  check->add_option("--micro-batch", read.micro_batch_size, "rows a micro-batch, the same")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  check->add_option("--cluster", flags->cluster,
                    "catalogue name or TOML file, for memory and speed");
  check->add_flag("--json", flags->json, "print the result as JSON");
  check->callback([flags, &chosen] { chosen = [flags] { return run_check(*flags); }; });
}

}  // namespace plait
