#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "profile/analysis.h"

namespace plait {
namespace {

struct ProfileFlags {
  std::vector<std::string> paths;
  bool json = false;
};

int run_profile(const ProfileFlags& flags) {
  const bool diff = !flags.paths.empty() && flags.paths.front() == "diff";
  if (diff && flags.paths.size() != 3) {
    throw_error(ErrorCode::kInvalidArgument,
                "profile diff: takes two profiles, {} are given; for example: plait profile diff "
                "before/ after/",
                flags.paths.size() - 1);
  }
  if (diff) {
    const Analysis before = analyse(read_profile({flags.paths[1]}));
    const Analysis after = analyse(read_profile({flags.paths[2]}));
    std::fputs(
        flags.json ? (diff_json(before, after) + "\n").c_str() : diff_text(before, after).c_str(),
        stdout);
    return 0;
  }
  const Profile profile = read_profile(flags.paths);
  const Analysis analysis = analyse(profile);
  std::fputs(flags.json ? (profile_json(profile, analysis) + "\n").c_str()
                        : profile_text(profile, analysis).c_str(),
             stdout);
  return 0;
}

}  // namespace

void add_profile_command(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App* profile =
      app.add_subcommand("profile", "where a step's time went, from profiler output");
  profile->footer(
      "Reads what torch_npu and msprof write (step_trace_time.csv, kernel_details.csv,\n"
      "op_summary*.csv, op_statistic*.csv, communication.json, communication_matrix.json,\n"
      "trace_view.json, *.db) and traces of plait train: one rank, or a folder of ranks.\n"
      "Exit status: 0; 2 nothing usable is there.\n"
      "Examples:\n"
      "  plait profile prof/\n"
      "  plait profile prof/host_123_ascend_pt/ASCEND_PROFILER_OUTPUT/step_trace_time.csv\n"
      "  plait profile diff before/ after/");
  profile->add_option("path", flags->paths, "files or folders; or: diff BEFORE AFTER")->required();
  profile->add_flag("--json", flags->json, "print the result as JSON");
  profile->callback([flags, &chosen] { chosen = [flags] { return run_profile(*flags); }; });
}

}  // namespace plait
