// The ladder from the smallest thing that can work to a whole job: each rung is a run of this
// program of its own, so that one that crashes or hangs says so and harms nothing.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/file.h"
#include "base/json_full.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "doctor/run_command.h"
#include "topology/layout.h"

namespace plait {
namespace {

std::string self_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

constexpr double kSameLoss = 1e-4;  // relative; layouts differ in the order of sums

struct SelftestFlags {
  int ranks = 4;
  double limit_s = 60;
  std::string layout = {};  // of the user's job
  std::string hosts = {};   // as mpirun --host takes them
  bool json = false;
};

struct Rung {
  std::string name;
  std::vector<std::string> words;  // empty: cannot be tried here
  std::string failure;             // what it proves if this rung fails and those before passed
  std::string missing = {};        // why it cannot be tried
};

// A model and rows that any layout divides, in a folder that goes when the object does. With other
// hosts it is in the working directory, which they are expected to share.
class TinyJob {
 public:
  TinyJob(const Layout& layout, bool shared);
  ~TinyJob() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TinyJob(const TinyJob&) = delete;
  TinyJob& operator=(const TinyJob&) = delete;

  std::vector<std::string> train(const std::string& layout) const {
    return {self_program(),
            "train",
            "--model",
            folder_.string(),
            "--data",
            rows_.string(),
            "--layout",
            layout,
            "--steps",
            "2",
            "--json",
            "--seq-len",
            "32",
            "--global-batch-size",
            std::to_string(batch_),
            "--out",
            (folder_ / ("run-" + layout)).string()};
  }

 private:
  std::filesystem::path folder_, rows_;
  int64_t batch_;
};

TinyJob::TinyJob(const Layout& layout, bool shared)
    : folder_((shared ? std::filesystem::current_path() : std::filesystem::temp_directory_path()) /
              fmt::format("plait-selftest-{}", getpid())),
      rows_(folder_ / "rows.jsonl"),
      batch_(static_cast<int64_t>(layout.dp) * layout.pp * 2) {
  constexpr int kVocab = 256, kTokens = 33;
  std::filesystem::create_directories(folder_);
  const Json config = {{"architectures", {"Qwen3ForCausalLM"}},
                       {"model_type", "qwen3"},
                       {"hidden_size", 64 * layout.tp},
                       {"intermediate_size", 64 * layout.tp},
                       {"num_hidden_layers", std::max(2, layout.pp * layout.vpp)},
                       {"num_attention_heads", 2 * layout.tp},
                       {"num_key_value_heads", layout.tp},
                       {"head_dim", 16},
                       {"vocab_size", kVocab * layout.tp},
                       {"max_position_embeddings", 64},
                       {"rms_norm_eps", 1e-6},
                       {"rope_theta", 10000.0},
                       {"tie_word_embeddings", false},
                       {"hidden_act", "silu"}};
  write_file_atomic((folder_ / "config.json").string(), dump_json(config));
  std::string rows;
  for (int64_t i = 0; i < 2 * batch_ + 8; ++i) {
    Json tokens = Json::array();
    for (int64_t j = 0; j < kTokens; ++j) {
      tokens.push_back((7 * i + 3 * j * j) % kVocab);
    }
    rows += dump_json({{"input_ids", tokens}}) + "\n";
  }
  write_file_atomic(rows_.string(), rows);
}

// `words` as `ranks` processes, on `hosts` if there are any.
std::vector<std::string> under_mpi(int ranks, const std::string& hosts,
                                   const std::vector<std::string>& words) {
  std::vector<std::string> all = {"mpirun", "--allow-run-as-root", "--oversubscribe", "-n",
                                  std::to_string(ranks)};
  if (!hosts.empty()) {
    all.insert(all.end(), {"--host", hosts});
  }
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

// Slots of "h0:8,h1:8"; a host without a number has one.
int slots_of(const std::string& hosts) {
  int slots = 0;
  std::istringstream list(hosts);
  for (std::string host; std::getline(list, host, ',');) {
    const size_t colon = host.find(':');
    slots += colon == std::string::npos ? 1 : std::max(1, std::atoi(host.c_str() + colon + 1));
  }
  return slots;
}

std::vector<Rung> ladder(const SelftestFlags& flags, const TinyJob* job) {
  const std::string self = self_program();
  const std::string ranks = std::to_string(flags.ranks);
  const auto sweep = [&](const std::string& count) {
    return std::vector<std::string>{self,   "comm",       "sweep", "--ranks", count,
                                    "--op", "all_reduce", "-b",    "8",       "-e",
                                    "64K",  "-n",         "3",     "-w",      "1"};
  };
  constexpr const char* kNoNpu = "this build has no NPU backend";
  const int slots = slots_of(flags.hosts);
  std::vector<Rung> rungs = {
      {"one rank computes", sweep("1"), "this binary or this processor: nothing else took part"},
      {"two ranks talk", sweep("2"), "memory shared between threads, or limits of this process"},
      {"every pair talks",
       {self, "comm", "links", "--ranks", ranks, "--repeats", "2", "--pings", "5"},
       "the pair that is named: too few cores, or a limit of memory"},
      {"all ranks of this host", sweep(ranks), "the number of ranks: cores, memory, limits"},
      {"two processes over MPI", under_mpi(2, "", sweep("2")),
       "the MPI of this host: plait doctor env, then mpirun hostname"},
      {"one NPU computes", {}, "", kNoNpu},
      {"all NPUs of this host", {}, "", kNoNpu},
  };
  if (slots > 0) {
    rungs.push_back({"all hosts", under_mpi(slots, flags.hosts, sweep(std::to_string(slots))),
                     "the way between hosts: ssh without a password, the same program on each, "
                     "firewalls, the interface that MPI chooses"});
  } else {
    rungs.push_back({"all hosts", {}, "", "give --hosts h0:8,h1:8"});
  }
  if (job == nullptr) {
    rungs.push_back({"the layout with a tiny model", {}, "", "give --layout dp2.tp2.pp2"});
    return rungs;
  }
  rungs.push_back({"a tiny model trains on one rank", job->train("dp1"),
                   "training itself: memory, or the folder that is written to"});
  const std::vector<std::string> words = job->train(flags.layout);
  rungs.push_back(
      {"the layout with a tiny model",
       slots > 0 ? under_mpi(parse_layout(flags.layout).world_size(), flags.hosts, words) : words,
       "the groups of this layout: which ranks talk, and over which links"});
  return rungs;
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

// The loss after the last step, of what plait train --json printed; NaN if it says none.
double last_loss(const std::string& output) {
  constexpr std::string_view kKey = "\"last_loss\": ";
  const size_t at = output.rfind(kKey);
  return at == std::string::npos ? NAN : std::atof(output.c_str() + at + kKey.size());
}

// Climbs, and says how far.
class Climb {
 public:
  explicit Climb(const SelftestFlags& flags) : flags_(flags) {}

  // True if the next rung makes sense.
  bool step(const Rung& rung);
  int finish() const {
    if (flags_.json) {
      std::printf("%s\n", dump_json({{"passed", !failed_}, {"rungs", rungs_}}, 2).c_str());
    }
    return failed_ ? 1 : 0;
  }

 private:
  void say(const char* result, const Rung& rung, const std::string& note);
  // "" if a rung that trains has the loss of the one before.
  std::string compare_loss(const CommandResult& result);

  const SelftestFlags& flags_;
  Json rungs_ = Json::array();
  double loss_ = NAN;
  bool failed_ = false;
};

void Climb::say(const char* result, const Rung& rung, const std::string& note) {
  rungs_.push_back({{"rung", rung.name}, {"result", result}, {"note", note}});
  if (!flags_.json) {
    std::printf("%-8s %s%s\n", result, rung.name.c_str(), printable(note).c_str());
    std::fflush(stdout);
  }
}

std::string Climb::compare_loss(const CommandResult& result) {
  const double loss = last_loss(result.output);
  const double before = std::exchange(loss_, loss);
  if (!std::isnan(before) && !(std::abs(loss - before) <= kSameLoss * std::abs(before))) {
    return fmt::format("its loss after two steps is {:.6f}, that of one rank {:.6f}", loss, before);
  }
  return "";
}

bool Climb::step(const Rung& rung) {
  if (rung.words.empty()) {
    say("skipped", rung, ": " + rung.missing);
    return true;
  }
  const CommandResult result = run_command(rung.words, flags_.limit_s);
  if (!result.started) {
    say("skipped", rung, fmt::format(": {} is not on PATH", rung.words[0]));
    return true;
  }
  const std::string speed = speed_findings(result);
  std::string wrong;
  if (result.timed_out) {
    wrong = "no end within the limit";
  } else if (result.status != 0 && speed.empty()) {
    wrong = fmt::format("exit status {}", result.status);
  } else {
    wrong = compare_loss(result);
  }
  if (wrong.empty()) {
    say("passed", rung, speed.empty() ? "" : " (but " + speed + ")");
    return true;
  }
  failed_ = true;
  say("failed", rung,
      fmt::format(" ({})\n         What it proves: {}.\n         {}", wrong, rung.failure,
                  tail_of(result.output)));
  return false;
}

int run_selftest(const SelftestFlags& flags) {
  std::optional<TinyJob> job;
  if (!flags.layout.empty()) {
    job.emplace(parse_layout(flags.layout), !flags.hosts.empty());
  }
  Climb climb(flags);
  for (const Rung& rung : ladder(flags, job ? &*job : nullptr)) {
    if (!climb.step(rung)) {
      break;
    }
  }
  return climb.finish();
}

}  // namespace

void add_doctor_selftest_command(CLI::App& doctor, Command& chosen) {
  auto flags = std::make_shared<SelftestFlags>();
  CLI::App* selftest = doctor.add_subcommand(
      "selftest", "climb from one rank to all: stops at the first rung that fails");
  selftest->footer(
      "The last rungs train a tiny model, on one rank and under --layout, and compare the losses.\n"
      "With --hosts they run under mpirun, in a folder of the working directory, which the hosts\n"
      "must share.\n"
      "Exit status: 0 every rung that could be tried passed; 1 one failed; 2 bad usage.\n"
      "Examples:\n"
      "  plait doctor selftest --ranks 8\n"
      "  plait doctor selftest --layout dp2.tp2.pp2.sp.zero1\n"
      "  plait doctor selftest --hosts h0:8,h1:8 --layout tp8.pp2");
  selftest->add_option("--ranks", flags->ranks, "ranks of the largest rung on this host")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  selftest->add_option("--limit", flags->limit_s, "seconds for a rung")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  selftest->add_option("--layout", flags->layout, "of your job: tried with a tiny model");
  selftest->add_option("--hosts", flags->hosts, "NAME:RANKS,... of all hosts, as mpirun --host");
  selftest->add_flag("--json", flags->json, "print the result as JSON");
  selftest->callback([flags, &chosen] { chosen = [flags] { return run_selftest(*flags); }; });
}

}  // namespace plait
