#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/json_full.h"
#include "cli/commands.h"
#include "comm/rank_runner.h"
#include "train/golden.h"
#include "train/stop_signal.h"
#include "train/trainer.h"

namespace plait {
namespace {

struct TrainFlags {
  TrainConfig config;
  std::string run_file;
  bool dry_run = false;
  bool json = false;
  VerifyOptions verify;
  std::string verify_layout = "dp1";
};

std::string flag_name(const std::string& name) {
  std::string flag = "--" + name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

void add_option(CLI::App& app, const TrainOption& option) {
  const std::string flag = flag_name(option.name);
  std::visit(
      [&](auto* target) {
        using Value = std::remove_pointer_t<decltype(target)>;
        CLI::Option* added = nullptr;
        if constexpr (std::is_same_v<Value, bool>) {
          // "--sp" or "--sp=false": a flag in a run file can be switched off again.
          added = app.add_flag(flag + "{true}", *target, option.help);
        } else {
          added = app.add_option(flag, *target, option.help);
          if constexpr (std::is_same_v<Value, std::vector<int64_t>>) {
            added->delimiter(',');
          } else {
            // Scripts append what differs.
            added->capture_default_str()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
          }
        }
        added->group(std::string("[") + option.section + "]");
      },
      option.target);
}

// The value of --run, found before the real parse so that flags win over the file.
std::string find_run_file(const CommandLine& line) {
  for (int i = 1; i < line.argc; ++i) {
    const std::string argument = line.argv[i];
    if (argument.starts_with("--run=")) {
      return argument.substr(6);
    }
    if (argument == "--run" && i + 1 < line.argc) {
      return line.argv[i + 1];
    }
  }
  return "";
}

int run_train(const TrainFlags& flags) {
  const TrainRun run = resolve_train_run(flags.config);
  if (flags.dry_run) {
    std::fputs((flags.json ? train_run_json(run) + "\n" : describe_train_run(run)).c_str(), stdout);
    return 0;
  }
  const StopSignals signals(flags.config.grace_s);
  const TrainSummary summary = run_training(run);
  if (!summary.memory.empty()) {  // this process has rank 0
    std::fputs((flags.json ? summary_json(summary) + "\n" : format_summary(summary)).c_str(),
               stdout);
  }
  return 0;
}

std::string verify_json(const GoldenReport& report) {
  Json parts = Json::array();
  for (const GoldenPart& part : report.parts) {
    parts.push_back({{"name", part.name},
                     {"error", part.error},
                     {"limit", part.limit},
                     {"passed", part.passed()}});
  }
  return dump_json({{"directory", report.directory},
                    {"layout", report.layout},
                    {"passed", report.passed()},
                    {"parts", std::move(parts)}},
                   2);
}

int run_verify(TrainFlags& flags) {
  flags.verify.layout = parse_layout(flags.verify_layout);
  const GoldenReport report = verify_golden(flags.verify);
  if (report.parts.empty()) {  // another process has rank 0
    return 0;
  }
  if (flags.json) {
    std::puts(verify_json(report).c_str());
  } else {
    for (const GoldenPart& part : report.parts) {
      std::printf("%-4s %-60s error %.2e  limit %.0e\n", part.passed() ? "ok" : "FAIL",
                  part.name.c_str(), part.error, part.limit);
    }
    std::printf("%s: %s under %s\n", report.passed() ? "passed" : "FAILED",
                report.directory.c_str(), report.layout.c_str());
  }
  return report.passed() ? 0 : 1;
}

}  // namespace

void add_train_command(CLI::App& app, const CommandLine& line, Command& chosen) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* train = app.add_subcommand("train", "train a transformer under any layout");
  train->footer(
      "Examples:\n"
      "  plait train --model config.json --data text --layout dp2.tp2.pp2.sp.zero1 --out run\n"
      "  plait train --run run.toml --steps 500 --resume\n"
      "  plait train --model config.json --data text --layout tp8.pp4 --dry-run\n"
      "  mpirun -n 8 --bind-to none plait train --model config.json --data text --layout tp2.pp2\n"
      "  plait train verify DIR --layout dp2.tp2.pp2.sp.zero1");
  const std::string run_file = find_run_file(line);
  if (!run_file.empty()) {
    apply_run_file(run_file, flags->config);
  }
  train->add_option("--run", flags->run_file, "TOML file with the options below; flags win");
  train->add_flag("--dry-run", flags->dry_run, "print memory, schedule and files; run nothing");
  train->add_flag("--json", flags->json, "print the result as JSON");
  for (const TrainOption& option : train_options(flags->config)) {
    add_option(*train, option);
  }
  CLI::App* verify = train->add_subcommand(
      "verify", "compare with the answers of another implementation in a golden directory");
  verify->add_option("directory", flags->verify.directory, "HF model with golden.* files")
      ->required();
  verify->add_option("--layout", flags->verify_layout, "for example dp2.tp2.pp2.sp.zero1");
  verify->add_option("--device", flags->verify.device, "cpu or guard");
  verify->add_option("--threads", flags->verify.threads_per_rank, "threads per rank");
  verify->add_option("--deadline", flags->verify.deadline_s, "seconds a rank waits for another");
  verify->add_flag("--json", flags->json, "print the result as JSON");
  train->callback([verify, flags, &chosen] {
    if (verify->parsed()) {
      chosen = [flags] { return run_verify(*flags); };
    } else {
      chosen = [flags] { return run_train(*flags); };
    }
  });
}

}  // namespace plait
