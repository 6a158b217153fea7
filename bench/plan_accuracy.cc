// Step time and memory of layouts of one and two ranks on this machine, measured with the trainer's
// engine and predicted by the planner from figures of this machine.
//
//   plan_accuracy [--cluster FILE.toml] [--rounds 3] [--steps 3] [--threads 1] [--only tp2]
//
// Without --cluster the machine is measured first. Layouts are measured in turn, `rounds` times
// over, and the best step of each counts: other work on the machine only ever adds time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "calibrate/calibrate.h"
#include "comm/rank_runner.h"
#include "plan/estimate.h"
#include "train/engine.h"

namespace plait {
namespace {

struct Options {
  std::string cluster;
  std::string only;
  int rounds = 3;
  int steps = 3;
  int threads = 1;
};

struct Case {
  std::string layout;
  int64_t micro_batch = 1;
  Recompute recompute = Recompute::kNone;
  std::vector<int64_t> stage_layers = {};
  int64_t hidden = 384;
  ScheduleKind schedule = ScheduleKind::kOneFOneB;
};

std::vector<Case> all_cases() {
  return {{.layout = "dp1", .micro_batch = 1},
          {.layout = "dp1", .micro_batch = 2},
          {.layout = "dp1", .micro_batch = 4},
          {.layout = "dp1", .micro_batch = 2, .recompute = Recompute::kSelective},
          {.layout = "dp1", .micro_batch = 2, .recompute = Recompute::kFull},
          {.layout = "dp1", .micro_batch = 2, .hidden = 512},
          {.layout = "dp2", .micro_batch = 1},
          {.layout = "dp2", .micro_batch = 2},
          {.layout = "dp2.zero1", .micro_batch = 2},
          {.layout = "dp2.zero1", .micro_batch = 1, .recompute = Recompute::kFull, .hidden = 256},
          {.layout = "tp2", .micro_batch = 1},
          {.layout = "tp2", .micro_batch = 4},
          {.layout = "tp2.sp", .micro_batch = 2},
          {.layout = "tp2.sp", .micro_batch = 2, .recompute = Recompute::kSelective},
          {.layout = "tp2.sp", .micro_batch = 4, .recompute = Recompute::kFull, .hidden = 512},
          {.layout = "pp2", .micro_batch = 1},
          {.layout = "pp2", .micro_batch = 2, .recompute = Recompute::kFull},
          {.layout = "pp2", .micro_batch = 1, .stage_layers = {3, 1}},
          {.layout = "pp2.vpp2", .micro_batch = 1, .schedule = ScheduleKind::kInterleaved},
          // More ranks than cores take turns.
          {.layout = "dp4", .micro_batch = 1},
          {.layout = "dp2.tp2", .micro_batch = 1}};
}

EngineConfig config_of(const Case& c) {
  EngineConfig config;
  ModelConfig& model = config.model;
  model.family = ModelFamily::kQwen3;
  model.qk_norm = true;
  model.vocab_size = 2048;
  model.hidden_size = c.hidden;
  model.ffn_hidden_size = c.hidden * 8 / 3 / 64 * 64;
  model.num_layers = 4;
  model.head_dim = 64;
  model.num_heads = c.hidden / 64;
  model.num_kv_heads = model.num_heads / 2 % 2 == 0 ? model.num_heads / 2 : model.num_heads;
  model.max_position_embeddings = 256;
  Layout base;
  base.recompute = c.recompute;
  base.stage_layers = c.stage_layers;
  base.schedule = c.schedule;
  config.layout = parse_layout(c.layout, base);
  config.batch = {.global_batch_size = 4, .micro_batch_size = c.micro_batch, .seq_len = 128};
  check_run({.model = model, .layout = config.layout, .batch = config.batch});
  return config;
}

TrainJob job_of(const EngineConfig& config) {
  TrainJob job;
  job.model = config.model;
  job.layout = config.layout;
  job.batch = config.batch;
  job.stack = Stack::kPlait;
  job.dtype = config.compute_dtype;
  job.vocab_multiple = config.vocab_multiple;
  job.overlap_grad_reduce = config.overlap_grad_reduce;
  job.overlap_param_gather = true;
  return job;
}

struct Measured {
  std::vector<double> step_s;
  int64_t peak_bytes = 0;  // of the fullest rank
  // Of the best step on rank 0: compute, exposed communication, bubble, optimizer.
  double compute = 0, exposed = 0, bubble = 0, optimizer = 0;
};

void measure(const EngineConfig& config, const Options& options, Measured& measured) {
  RankRunnerOptions runner;
  runner.ranks = config.layout.world_size();
  runner.threads_per_rank = options.threads;
  std::vector<int64_t> peaks(static_cast<size_t>(runner.ranks));
  const auto read_row = [&](int64_t row, int32_t* tokens, int32_t* targets) {
    for (int64_t i = 0; i < config.batch.seq_len; ++i) {
      const auto at = static_cast<uint64_t>(i);
      tokens[i] = static_cast<int32_t>(random_bits(2, static_cast<uint64_t>(row), at) % 2048);
      targets[i] = static_cast<int32_t>(random_bits(2, static_cast<uint64_t>(row), at + 1) % 2048);
    }
  };
  run_ranks(runner, [&](World& world) {
    Engine engine(config, world);
    engine.init_weights(random_initial_values(1, config.model.initializer_range));
    for (int64_t step = 1; step <= options.steps + 1; ++step) {
      engine.context().all().barrier();
      const double start = now_s();
      const StepResult result = engine.forward_backward(read_row);
      engine.update(1e-4, step, result.grad_norm);
      engine.optimizer().wait_all();
      engine.context().all().barrier();
      const double seconds = now_s() - start;
      if (world.rank() == 0 && step > 1) {  // the first one warms up
        if (measured.step_s.empty() ||
            seconds < *std::min_element(measured.step_s.begin(), measured.step_s.end())) {
          const auto& waits = engine.times().waits;
          measured.exposed = waits[0] + waits[1];
          measured.bubble = waits[2];
          measured.optimizer = engine.times().optimizer_s;
          measured.compute = seconds - measured.exposed - measured.bubble - measured.optimizer;
        }
        measured.step_s.push_back(seconds);
      }
    }
    peaks[static_cast<size_t>(world.rank())] = world.device().ledger().totals().total_peak_bytes;
  });
  measured.peak_bytes = *std::max_element(peaks.begin(), peaks.end());
}

std::string name_of(const Case& c) {
  std::string name =
      fmt::format("{} mb{} {} h{}", c.layout, c.micro_batch, recompute_name(c.recompute), c.hidden);
  return c.stage_layers.empty() ? name
                                : name + fmt::format(" split {}", fmt::join(c.stage_layers, ","));
}

struct Deviation {
  double time = 0, memory = 0;
};

// Prints one row and returns the relative errors.
Deviation print_row(const Case& c, const Cluster& cluster, const Measured& m) {
  const EngineConfig config = config_of(c);
  const Estimate e =
      estimate_job(job_of(config), with_devices(cluster, config.layout.world_size()));
  const double best = *std::min_element(m.step_s.begin(), m.step_s.end());
  std::vector<double> sorted = m.step_s;
  std::sort(sorted.begin(), sorted.end());
  const double peak = e.worst_stage().peak.best;
  const auto bytes = static_cast<double>(m.peak_bytes);
  const StepTime& t = e.time;
  const double exposed = t.tp_exposed + t.dp_exposed + t.pp_exposed;
  std::puts(
      fmt::format("{:<38} {:8.1f} {:8.1f} {:8.1f} {:6.3f}  {:8.2f} {:8.2f} {:6.3f}   {:.0f}/{:.0f} "
                  "{:.0f}/{:.0f} {:.0f}/{:.0f} {:.0f}/{:.0f}{}",
                  name_of(c), best * 1e3, sorted[sorted.size() / 2] * 1e3, t.step.best * 1e3,
                  t.step.best / best, bytes / (1 << 20), peak / (1 << 20), peak / bytes,
                  m.compute * 1e3, (t.compute + t.host) * 1e3, m.exposed * 1e3, exposed * 1e3,
                  m.bubble * 1e3, t.bubble * 1e3, m.optimizer * 1e3, t.optimizer * 1e3,
                  t.turns > 0 ? "  takes turns" : "")
          .c_str());
  return {std::abs(t.step.best / best - 1), std::abs(peak / bytes - 1)};
}

void run(const Options& options) {
  Cluster cluster;
  if (options.cluster.empty()) {
    CalibrateOptions calibrate;
    calibrate.threads = options.threads;
    calibrate.command = "plan_accuracy";
    cluster = calibrate_machine(calibrate);
  } else {
    cluster = load_cluster(options.cluster);
  }
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [&](const Case& c) { return name_of(c).find(options.only) != 0; });
  std::vector<Measured> measured(cases.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      measure(config_of(cases[i]), options, measured[i]);
    }
  }
  std::printf("%-38s %8s %8s %8s %6s  %8s %8s %6s   %s\n", "layout", "best ms", "median", "planned",
              "ratio", "peak MiB", "planned", "ratio",
              "compute, exposed, bubble, optimizer: ms measured/planned on rank 0");
  int counted = 0, time_good = 0, memory_good = 0;
  Deviation sum, worst;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Deviation error = print_row(cases[i], cluster, measured[i]);
    if (parse_layout(cases[i].layout).world_size() > 2) {
      continue;
    }
    ++counted;
    time_good += error.time <= 0.15 ? 1 : 0;
    memory_good += error.memory <= 0.03 ? 1 : 0;
    sum.time += error.time;
    worst.time = std::max(worst.time, error.time);
    worst.memory = std::max(worst.memory, error.memory);
  }
  std::printf(
      "worlds 1 and 2: time within 15 %% for %d of %d (mean %.1f %%, worst %.1f %%); memory within "
      "3 %% for %d (worst %.2f %%)\n",
      time_good, counted, 100 * sum.time / std::max(1, counted), 100 * worst.time, memory_good,
      100 * worst.memory);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 >= argc) {
      throw_error(ErrorCode::kInvalidArgument, "{}: a value is missing", flag);
    }
    const std::string value = argv[i + 1];
    if (flag == "--cluster") {
      options.cluster = value;
    } else if (flag == "--only") {
      options.only = value;
    } else if (flag == "--rounds") {
      options.rounds = std::stoi(value);
    } else if (flag == "--steps") {
      options.steps = std::stoi(value);
    } else if (flag == "--threads") {
      options.threads = std::stoi(value);
    } else {
      throw_error(ErrorCode::kInvalidArgument,
                  "unknown flag {}; allowed are --cluster, --only, --rounds, --steps, --threads",
                  flag);
    }
  }
  return options;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  try {
    plait::run(plait::parse(argc, argv));
    return 0;
  } catch (const plait::Error& error) {
    std::fprintf(stderr, "plan_accuracy: %s\n", error.what());
    return plait::exit_code(error.code());
  }
}
