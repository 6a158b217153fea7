#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/file.h"
#include "calibrate/calibrate.h"
#include "cli/commands.h"

namespace plait {
namespace {

struct CalibrateFlags {
  std::string out = "this-machine.toml";
  CalibrateOptions options;
};

int run_calibrate(CalibrateFlags& flags) {
  CalibrateOptions& options = flags.options;
  options.command = fmt::format("plait plan calibrate --threads {}{}", options.threads,
                                options.quick ? " --quick" : "");
  options.progress = [](const std::string& line) {
    std::fprintf(stderr, "measuring %s ...\n", line.c_str());
  };
  const Cluster cluster = calibrate_machine(options);
  write_file_atomic(flags.out, cluster_file_text(cluster));
  std::fputs(fmt::format("{}written: {}; use it with --cluster {} --stack plait --dtype fp32\n",
                         calibration_text(cluster), flags.out, flags.out)
                 .c_str(),
             stdout);
  return 0;
}

}  // namespace

void add_plan_calibrate_command(CLI::App& plan, Command& chosen) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* calibrate = plan.add_subcommand(
      "calibrate", "measure this machine and write a cluster file for --cluster");
  calibrate->footer(
      "The figures hold for ranks with as many threads: --threads 1 for ranks that share the\n"
      "cores one each. Takes all cores, so best on an idle machine.\n"
      "Example: plait plan calibrate --threads 1 --out this-machine.toml");
  flags->options.threads = 1;
  calibrate->add_option("--out", flags->out, "file to write")->capture_default_str();
  calibrate->add_option("--threads", flags->options.threads, "threads of a rank")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  calibrate->add_flag("--quick", flags->options.quick, "small sizes: seconds, less exact");
  calibrate->callback([flags, &chosen] { chosen = [flags] { return run_calibrate(*flags); }; });
}

}  // namespace plait
