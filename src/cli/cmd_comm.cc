#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "cli/commands.h"
#include "comm/rank_runner.h"
#include "comm/world_groups.h"
#include "comm_test/report.h"

namespace plait {
namespace {

struct CommFlags {
  SweepOptions sweep;
  LinkOptions links;
  std::string ops, min_bytes = "8", max_bytes = "16M", step_bytes = "0";
  std::string reduce = "sum", dtype = "fp32", format = "table";
  int check = 1;
  int ranks = 0, threads = 1;
  std::string device = "cpu";
  double deadline = 30;
  std::string cluster, baseline, out, html;
  double least = 0.8;
  bool json = false;
  double every = 60;
  int rounds = 0;
};

// "8", "64K", "1.5M", "2G": binary, as hccl_test reads them.
int64_t parse_bytes(const char* flag, const std::string& text) {
  size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    value = -1;
  }
  std::string unit = text.substr(std::min(used, text.size()));
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const double factor = unit.empty() || unit == "B"   ? 1
                        : unit == "K" || unit == "KB" ? 1024.0
                        : unit == "M" || unit == "MB" ? 1024.0 * 1024
                        : unit == "G" || unit == "GB" ? 1024.0 * 1024 * 1024
                                                      : -1;
  if (value < 0 || factor < 0 || value * factor > 1e12) {
    throw_error(ErrorCode::kInvalidArgument, "{} {}: give a size such as 8, 64K, 16M or 1G", flag,
                text);
  }
  return static_cast<int64_t>(value * factor);
}

DType parse_comm_dtype(const std::string& name) {
  const std::pair<const char*, DType> names[] = {{"fp32", DType::kF32},   {"f32", DType::kF32},
                                                 {"fp16", DType::kF16},   {"f16", DType::kF16},
                                                 {"bfp16", DType::kBF16}, {"bf16", DType::kBF16},
                                                 {"int32", DType::kI32},  {"i32", DType::kI32}};
  for (const auto& [known, dtype] : names) {
    if (name == known) {
      return dtype;
    }
  }
  throw_error(ErrorCode::kInvalidArgument,
              "-d {}: allowed are fp32, fp16, bf16 (also bfp16) and int32", name);
}

SweepOptions sweep_options(const CommFlags& flags) {
  SweepOptions o = flags.sweep;
  o.min_bytes = parse_bytes("-b", flags.min_bytes);
  o.max_bytes = parse_bytes("-e", flags.max_bytes);
  o.step_bytes = parse_bytes("-i", flags.step_bytes);
  o.dtype = parse_comm_dtype(flags.dtype);
  o.check = flags.check != 0;
  if (flags.reduce != "sum" && flags.reduce != "max") {
    throw_error(ErrorCode::kInvalidArgument,
                "-o {}: allowed are sum and max (prod and min are hccl_test's alone)",
                flags.reduce);
  }
  o.reduce = flags.reduce == "max" ? ReduceOp::kMax : ReduceOp::kSum;
  std::string rest = flags.ops;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    o.ops.push_back(parse_test_op(rest.substr(0, comma)));
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
  }
  return o;
}

RankRunnerOptions runner_options(const CommFlags& flags) {
  RankRunnerOptions o;
  o.ranks = flags.ranks > 0 ? flags.ranks : under_mpi_launcher() ? launcher_world_size() : 2;
  o.device = flags.device;
  o.threads_per_rank = flags.threads;
  o.comm.deadline_s = flags.deadline;
  return o;
}

void put(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

struct CommReport {
  Json json;
  std::string text;
  std::function<std::string()> html;  // made only when asked for
};

// 0: nothing stands out; 1: something does.
int finish(const CommFlags& flags, const std::vector<CommFinding>& findings,
           const CommReport& report) {
  if (!flags.html.empty()) {
    write_file_atomic(flags.html, report.html());
  }
  if (!flags.out.empty()) {
    write_file_atomic(flags.out, dump_json(report.json, 2) + "\n");
  }
  put(flags.json ? dump_json(report.json, 2) + "\n" : report.text + findings_text(findings));
  return findings.empty() ? 0 : 1;
}

// Prints rows as they come, in the form that --format asks for.
class SweepPrinter {
 public:
  SweepPrinter(const CommFlags& flags, const SweepOptions& options)
      : options_(options), hccl_(flags.format == "hccl_test"), silent_(flags.json) {
    if (!hccl_ && flags.format != "table") {
      throw_error(ErrorCode::kInvalidArgument, "--format {}: allowed are table and hccl_test",
                  flags.format);
    }
  }
  void head() const {
    if (!silent_ && !hccl_) {
      put(sweep_head());
    }
  }
  void row(const SweepRow& row) {
    if (silent_) {
      return;
    }
    if (hccl_ && row.op != last_) {
      put((options_.ops.size() == 1 ? "" : std::string(test_op_name(row.op)) + "\n") +
          hccl_test_head(options_));
    }
    last_ = row.op;
    put(hccl_ ? hccl_test_row(row) : sweep_row(row));
  }
  // What stands between the rows and the verdict.
  std::string gap() const { return hccl_ ? "" : "\n"; }

 private:
  const SweepOptions& options_;
  const bool hccl_;
  const bool silent_;
  std::optional<TestOp> last_;
};

// What a sweep is compared with: a recorded baseline before a cluster's closed form.
struct SweepYardstick {
  std::optional<Cluster> cluster;
  std::vector<Expectation> baseline;
};

SweepYardstick sweep_yardstick(const CommFlags& flags) {
  SweepYardstick yardstick;
  if (!flags.baseline.empty()) {
    yardstick.baseline = read_baseline(flags.baseline);
  }
  if (!flags.cluster.empty()) {
    yardstick.cluster = load_cluster(flags.cluster);
  }
  return yardstick;
}

int report_sweep(const CommFlags& flags, const SweepYardstick& yardstick, const SweepResult& result,
                 std::string text) {
  std::vector<Expectation> expected = yardstick.baseline;
  std::string source = "baseline " + flags.baseline;
  if (yardstick.cluster && expected.empty()) {
    expected = expect_sweep(result, with_devices(*yardstick.cluster, result.ranks));
    source = "closed form on " + yardstick.cluster->name;
  }
  const std::vector<CommFinding> findings = judge_sweep(result, expected, source, flags.least);
  if (yardstick.cluster) {
    for (const std::string& advice : hccl_advice(result, *yardstick.cluster)) {
      text += advice + "\n";
    }
  }
  return finish(flags, findings,
                {sweep_json(result, findings), text, [&] { return sweep_html(result, findings); }});
}

int run_comm_sweep(const CommFlags& flags) {
  const SweepOptions options = sweep_options(flags);
  SweepPrinter printer(flags, options);
  const SweepYardstick yardstick = sweep_yardstick(flags);
  int status = 0;
  run_ranks(runner_options(flags), [&](World& world) {
    const auto group = create_world_group(world, "all");
    const bool reports = world.rank() == 0;
    if (reports) {
      printer.head();
    }
    const SweepResult result =
        run_sweep(world, *group, options, [&](const SweepRow& row) { printer.row(row); });
    if (reports) {
      status = report_sweep(flags, yardstick, result, printer.gap());
    }
  });
  return status;
}

int run_comm_links(const CommFlags& flags) {
  int status = 0;
  run_ranks(runner_options(flags), [&](World& world) {
    const auto group = create_world_group(world, "all");
    const LinkResult result = measure_links(world, *group, flags.links, [&](int done, int rounds) {
      if (!flags.json) {
        std::fprintf(stderr, "\rround %d of %d%s", done, rounds, done == rounds ? "\n" : "");
      }
    });
    if (world.rank() == 0) {
      const std::vector<CommFinding> findings = judge_links(result);
      status = finish(flags, findings,
                      {links_json(result, findings), links_text(result) + "\n",
                       [&] { return links_html(result, findings); }});
    }
  });
  return status;
}

// Waits without a peer, so no deadline runs.
void pause_for(double seconds) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::duration<double>(seconds), [] { return false; });
}

int run_comm_watch(const CommFlags& flags) {
  if (flags.baseline.empty() || flags.every <= 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "comm watch: --baseline FILE is needed (written if it does not exist), and --every "
                "of more than 0 s");
  }
  LinkOptions light = flags.links;
  light.repeats = 1;
  light.pings = std::min(light.pings, 10);
  int status = 0;
  run_ranks(runner_options(flags), [&](World& world) {
    const auto group = create_world_group(world, "all");
    for (int round = 0; flags.rounds == 0 || round < flags.rounds; ++round) {
      if (round > 0) {
        pause_for(flags.every);
      }
      const LinkResult result = measure_links(world, *group, light, [](int, int) {});
      if (world.rank() != 0) {
        continue;
      }
      if (!path_exists(flags.baseline)) {
        write_file_atomic(flags.baseline, dump_json(links_json(result, {}), 2) + "\n");
        put("baseline written to " + flags.baseline + "\n");
        continue;
      }
      const std::vector<CommFinding> findings =
          judge_drift(result, read_json(flags.baseline), flags.baseline);
      status = findings.empty() ? status : 1;
      put(fmt::format("round {}: {}", round + 1, findings_text(findings)));
    }
  });
  return status;
}

void add_common(CLI::App& app, CommFlags& flags) {
  app.add_option("--ranks", flags.ranks, "ranks (threads of this process); under mpirun: its own");
  app.add_option("--device", flags.device, "cpu or guard")->capture_default_str();
  app.add_option("--deadline", flags.deadline, "seconds that a rank waits for another")
      ->capture_default_str();
  app.add_option("--out", flags.out, "also write the result as JSON");
  app.add_option("--html", flags.html, "also write a page with curves or the matrix");
  app.add_flag("--json", flags.json, "print the result as JSON");
}

void add_link_flags(CLI::App& app, CommFlags& flags) {
  app.add_option("--bytes", flags.links.bytes, "of a large message")->capture_default_str();
  app.add_option("--repeats", flags.links.repeats, "large messages a direction")
      ->capture_default_str();
  app.add_option("--pings", flags.links.pings, "small messages a direction")->capture_default_str();
  app.add_option("--limit", flags.links.limit_s, "seconds for one message, then it is down")
      ->capture_default_str();
}

void add_sweep(CLI::App& comm, const std::shared_ptr<CommFlags>& flags, Command& chosen) {
  CLI::App* sweep = comm.add_subcommand("sweep", "collectives over a range of sizes");
  sweep->footer(
      "Exit status: 0 nothing stands out; 1 wrong data, a late rank, or below expectation; 2 bad\n"
      "usage.\n"
      "Examples:\n"
      "  plait comm sweep --ranks 8\n"
      "  mpirun -n 8 plait comm sweep --op all_reduce -b 8K -e 64M -f 2 -d fp32 --format "
      "hccl_test\n"
      "  plait comm sweep --ranks 8 --out before.json; plait comm sweep --ranks 8 --baseline "
      "before.json");
  add_common(*sweep, *flags);
  sweep->add_option("--op", flags->ops,
                    "all_reduce,all_gather,reduce_scatter,broadcast,"
                    "all_to_all,send_recv; default: all");
  sweep->add_option("-b", flags->min_bytes, "least size, with K, M or G")->capture_default_str();
  sweep->add_option("-e", flags->max_bytes, "largest size")->capture_default_str();
  sweep->add_option("-i", flags->step_bytes, "step between sizes; 0: grow by -f")
      ->capture_default_str();
  sweep->add_option("-f", flags->sweep.factor, "factor between sizes")->capture_default_str();
  sweep->add_option("-o", flags->reduce, "sum or max")->capture_default_str();
  sweep->add_option("-r", flags->sweep.root, "root of broadcast")->capture_default_str();
  sweep->add_option("-d", flags->dtype, "fp32, fp16, bf16 or int32")->capture_default_str();
  sweep->add_option("-n", flags->sweep.iterations, "calls of each size, at most")
      ->capture_default_str();
  sweep->add_option("-w", flags->sweep.warmup, "calls before, at most")->capture_default_str();
  sweep->add_option("-c", flags->check, "check the data: 0 or 1")->capture_default_str();
  sweep->add_option("--budget", flags->sweep.budget_s, "seconds of one size; 0: no limit")
      ->capture_default_str();
  sweep->add_option("--format", flags->format, "table or hccl_test")->capture_default_str();
  sweep->add_option("--cluster", flags->cluster, "catalogue name or TOML file to compare with");
  sweep->add_option("--baseline", flags->baseline, "JSON of an earlier sweep to compare with");
  sweep->add_option("--least", flags->least, "share of the expectation that passes")
      ->capture_default_str();
  sweep->callback([flags, &chosen] { chosen = [flags] { return run_comm_sweep(*flags); }; });
}

}  // namespace

void add_comm_command(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<CommFlags>();
  CLI::App* comm =
      app.add_subcommand("comm", "test collectives and links between ranks")->require_subcommand(1);
  add_sweep(*comm, flags, chosen);
  CLI::App* links = comm->add_subcommand("links", "every pair of ranks in both directions");
  links->footer(
      "Names slow, asymmetric and lossy links, and the host that they share.\n"
      "Exit status: 0 nothing stands out; 1 something does; 2 bad usage; 3 a link is down.\n"
      "Examples:\n"
      "  mpirun -n 8 --hostfile hosts plait comm links\n"
      "  plait comm links --ranks 4 --json");
  add_common(*links, *flags);
  add_link_flags(*links, *flags);
  links->callback([flags, &chosen] { chosen = [flags] { return run_comm_links(*flags); }; });
  CLI::App* watch = comm->add_subcommand("watch", "links again and again, against a baseline");
  watch->footer(
      "Low duty: one large and ten small messages a pair and direction every --every seconds.\n"
      "Example:\n  mpirun -n 8 --hostfile hosts plait comm watch --baseline links.json --every "
      "300");
  add_common(*watch, *flags);
  add_link_flags(*watch, *flags);
  watch->add_option("--baseline", flags->baseline, "JSON of an earlier run; written if missing");
  watch->add_option("--every", flags->every, "seconds between rounds")->capture_default_str();
  watch->add_option("--rounds", flags->rounds, "0: without end")->capture_default_str();
  watch->callback([flags, &chosen] { chosen = [flags] { return run_comm_watch(*flags); }; });
}

}  // namespace plait
