// The ladder from the smallest thing that can work to a whole job: each rung is a run of this
// program of its own, so that one that crashes or hangs says so and harms nothing.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/printable.h"
#include "cli/commands.h"
#include "doctor/run_command.h"

namespace plait {
namespace {

struct SelftestFlags {
  int ranks = 4;
  double limit_s = 60;
};

struct Rung {
  const char* name;
  std::vector<std::string> words;  // empty: cannot be tried here
  const char* failure;             // what it proves if this rung fails and those before passed
};

std::vector<Rung> ladder(const SelftestFlags& flags) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string ranks = std::to_string(flags.ranks);
  const auto sweep = [&](const std::string& count) {
    return std::vector<std::string>{self,   "comm",       "sweep", "--ranks", count,
                                    "--op", "all_reduce", "-b",    "8",       "-e",
                                    "64K",  "-n",         "3",     "-w",      "1"};
  };
  std::vector<std::string> mpi = {"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"};
  for (const std::string& word : sweep("2")) {
    mpi.push_back(word);
  }
  return {
      {"one rank computes", sweep("1"), "this binary or this processor: nothing else took part"},
      {"two ranks talk", sweep("2"), "memory shared between threads, or limits of this process"},
      {"every pair talks",
       {self, "comm", "links", "--ranks", ranks, "--repeats", "2", "--pings", "5"},
       "the pair that is named: too few cores, or a limit of memory"},
      {"all ranks of this host", sweep(ranks), "the number of ranks: cores, memory, limits"},
      {"two processes over MPI", mpi,
       "the MPI of this host: plait doctor env, then mpirun hostname"},
      {"one NPU computes", {}, ""},
      {"all NPUs of this host", {}, ""},
      {"all hosts", {}, ""},
      {"the layout of the job with a tiny model", {}, ""},
  };
}

// The last lines of what a rung printed, for its failure.
std::string tail_of(const std::string& output) {
  constexpr size_t kShown = 600;
  return printable(output.size() > kShown ? output.substr(output.size() - kShown) : output);
}

// The findings about speed, with commas, of a run that found nothing else; "" if there are others.
// A few short calls on a busy host tell whether ranks talk, not how fast.
std::string speed_findings(const CommandResult& result) {
  constexpr std::array kSpeed = {": late_rank", ": stalled_host", ": slow_link",
                                 ": asymmetric_link"};
  constexpr std::array kOther = {": wrong_data", ": lossy_link", ": bad_host"};
  std::string found;
  std::istringstream lines(result.status == 1 ? result.output : std::string());
  for (std::string line; std::getline(lines, line);) {
    const auto ends_line = [&](const char* name) { return line.ends_with(name); };
    if (std::any_of(kOther.begin(), kOther.end(), ends_line)) {
      return "";
    }
    if (std::any_of(kSpeed.begin(), kSpeed.end(), ends_line)) {
      found += (found.empty() ? "" : ", ") + line;
    }
  }
  return found;
}

int run_selftest(const SelftestFlags& flags) {
  for (const Rung& rung : ladder(flags)) {
    if (rung.words.empty()) {
      std::printf("skipped  %s: not part of this build; start it by hand\n", rung.name);
      continue;
    }
    const CommandResult result = run_command(rung.words, flags.limit_s);
    if (!result.started) {
      std::printf("skipped  %s: %s is not on PATH\n", rung.name, rung.words[0].c_str());
      continue;
    }
    const std::string speed = speed_findings(result);
    if (result.status != 0 && speed.empty()) {
      std::printf("failed   %s (%s)\n         What it proves: %s.\n         %s\n", rung.name,
                  result.timed_out ? "no end within the limit"
                                   : fmt::format("exit status {}", result.status).c_str(),
                  rung.failure, tail_of(result.output).c_str());
      return 1;
    }
    std::printf("passed   %s%s\n", rung.name,
                speed.empty() ? "" : printable(" (but " + speed + ")").c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

void add_doctor_selftest_command(CLI::App& doctor, Command& chosen) {
  auto flags = std::make_shared<SelftestFlags>();
  CLI::App* selftest = doctor.add_subcommand(
      "selftest", "climb from one rank to all: stops at the first rung that fails");
  selftest->footer(
      "Exit status: 0 every rung that could be tried passed; 1 one failed.\n"
      "Example: plait doctor selftest --ranks 8");
  selftest->add_option("--ranks", flags->ranks, "ranks of the largest rung on this host")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  selftest->add_option("--limit", flags->limit_s, "seconds for a rung")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  selftest->callback([flags, &chosen] { chosen = [flags] { return run_selftest(*flags); }; });
}

}  // namespace plait
