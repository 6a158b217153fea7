#include "train/train_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/ranges.h>

#include "base/bytes.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/json_full.h"
#include "comm/rank_runner.h"
#include "spec/memory_estimate.h"

namespace plait {
namespace {

constexpr int64_t kNotSet = -1;

void require(bool condition, const char* key, const std::string& value, const char* rule) {
  if (!condition) {
    throw_error(ErrorCode::kInvalidArgument, "{}={}: {}", key, value, rule);
  }
}

void check_plain_values(const TrainConfig& c) {
  const auto at_least = [](const char* key, int64_t value, int64_t least) {
    if (value < least) {
      throw_error(ErrorCode::kInvalidArgument, "{}={}: must be at least {}", key, value, least);
    }
  };
  const auto at_most = [](const char* key, int64_t value, int64_t most) {
    if (value > most) {
      throw_error(ErrorCode::kInvalidArgument, "{}={}: must be at most {}", key, value, most);
    }
  };
  require(!c.model.empty(), "model", "",
          "name an HF config.json or a directory with one (--model)");
  require(!c.data.empty(), "data", "",
          "name a token file PREFIX (made by 'plait data build') or a .jsonl file (--data)");
  at_least("steps", c.steps, 1);
  at_least("vocab_multiple", c.vocab_multiple, 1);
  at_least("bucket_mib", c.bucket_mib, 1);
  at_least("warmup_steps", c.warmup_steps, 0);
  at_least("save_every", c.save_every, 0);
  at_least("keep_last", c.keep_last, 0);
  at_least("eval_every", c.eval_every, 0);
  at_least("eval_batches", c.eval_batches, 1);
  at_least("threads", c.threads_per_rank, 0);
  at_least("ranks", c.ranks, 0);
  at_least("seed", c.seed, 0);
  at_least("zero", c.zero, kNotSet);
  at_most("steps", c.steps, int64_t{1} << 40);
  at_most("vocab_multiple", c.vocab_multiple, 1 << 20);
  at_most("bucket_mib", c.bucket_mib, 1 << 20);
  at_most("threads", c.threads_per_rank, 1024);
  at_most("keep_last", c.keep_last, 1 << 20);
  at_most("eval_batches", c.eval_batches, int64_t{1} << 40);
  const auto positive = [](const char* key, double value, double least) {
    if (!std::isfinite(value) || value < least) {
      throw_error(ErrorCode::kInvalidArgument, "{}={}: must be a number of at least {}", key, value,
                  least);
    }
  };
  positive("lr", c.lr, 0);
  positive("lr_min", c.lr_min, 0);
  positive("eps", c.eps, 0);
  positive("weight_decay", c.weight_decay, 0);
  positive("clip_grad_norm", c.clip_grad_norm, 0);
  positive("deadline", c.deadline_s, 0.1);
  positive("grace", c.grace_s, 0);
  require(c.beta1 >= 0 && c.beta1 < 1, "beta1", fmt::format("{}", c.beta1), "must be in [0, 1)");
  require(c.beta2 >= 0 && c.beta2 < 1, "beta2", fmt::format("{}", c.beta2), "must be in [0, 1)");
  require(c.val_fraction >= 0 && c.val_fraction < 1, "val_fraction",
          fmt::format("{}", c.val_fraction), "must be in [0, 1)");
  const std::vector<std::string> devices = device_names();
  require(std::ranges::find(devices, c.device) != devices.end(), "device", c.device,
          fmt::format("unknown; this build has {}", fmt::join(devices, ", ")).c_str());
  require(!c.resume || !c.out.empty(), "resume", "true",
          "needs the run directory that holds the checkpoints (--out)");
  require(!c.finetune || std::filesystem::is_directory(c.model), "finetune", "true",
          "needs a model directory with weights, not a config.json alone (--model)");
}

int as_degree(const char* key, int64_t value) {
  if (value < 1 || value > 1000000) {
    throw_error(ErrorCode::kInvalidArgument, "{}={}: must be between 1 and 1000000", key, value);
  }
  return static_cast<int>(value);
}

// The layout string, then single flags on top. dp is inferred from the number of ranks unless
// given.
Layout resolve_layout(const TrainConfig& c, int ranks) {
  Layout layout;
  layout.dp = 0;
  if (!c.layout.empty()) {
    layout = parse_layout(c.layout, layout);
  }
  const std::pair<int64_t, int Layout::*> flags[] = {{c.dp, &Layout::dp}, {c.tp, &Layout::tp},
                                                     {c.pp, &Layout::pp}, {c.vpp, &Layout::vpp},
                                                     {c.cp, &Layout::cp}, {c.ep, &Layout::ep}};
  const char* names[] = {"dp", "tp", "pp", "vpp", "cp", "ep"};
  for (size_t i = 0; i < std::size(flags); ++i) {
    if (flags[i].first != 0) {
      layout.*flags[i].second = as_degree(names[i], flags[i].first);
    }
  }
  if (c.zero != kNotSet) {
    layout.zero = static_cast<int>(std::min<int64_t>(c.zero, 1000));
  }
  layout.sp = layout.sp || c.sp;
  layout.recompute = parse_recompute(c.recompute);
  layout.stage_layers = c.stage_layers;
  // A named schedule stays, so that validation can refuse what does not go with vpp.
  if (!c.schedule.empty()) {
    layout.schedule = parse_schedule(c.schedule);
  } else if (layout.vpp > 1) {
    layout.schedule = ScheduleKind::kInterleaved;
  }
  if (layout.dp == 0) {
    const int64_t model_parallel = static_cast<int64_t>(layout.tp) * layout.pp * layout.cp;
    layout.dp =
        ranks > 0 && ranks % model_parallel == 0 ? static_cast<int>(ranks / model_parallel) : 1;
  }
  return layout;
}

DType parse_precision(const std::string& name) {
  if (name == "f32") {
    return DType::kF32;
  }
  if (name == "bf16") {
    return DType::kBF16;
  }
  if (name == "fp16") {
    return DType::kF16;
  }
  throw_error(ErrorCode::kInvalidArgument, "precision={}: allowed are f32, bf16 and fp16", name);
}

MemoryEstimate estimate(const TrainRun& run) {
  return estimate_memory({.model = run.engine.model,
                          .layout = run.engine.layout,
                          .batch = run.engine.batch,
                          .compute_dtype = run.engine.compute_dtype,
                          .vocab_multiple = run.engine.vocab_multiple,
                          .bucket_count = run.engine.bucket_count});
}

// All ranks of this host together.
int64_t local_bytes(const TrainRun& run, const MemoryEstimate& memory) {
  // Absurd sizes give absurd sums: not in integers.
  double mean = 0;
  for (const StageMemory& stage : memory.stages) {
    mean += static_cast<double>(stage.total.bytes) / run.engine.layout.pp;
  }
  constexpr double kMost = 9e18;
  return static_cast<int64_t>(std::min(kMost, mean * run.local_ranks));
}

void check_fits(const TrainRun& run) {
  constexpr int kRanksMax = 512;
  if (run.local_ranks > kRanksMax) {
    throw_error(ErrorCode::kInvalidArgument,
                "ranks={}: one machine holds at most {} ranks; start more machines with mpirun or "
                "srun, or choose a smaller layout",
                run.local_ranks, kRanksMax);
  }
  const MemoryEstimate memory = estimate(run);
  const int64_t needed = local_bytes(run, memory);
  const int64_t available = available_memory_bytes();
  if (needed <= available) {
    return;
  }
  throw_error(ErrorCode::kInvalidArgument,
              "this run needs about {} on this machine ({} ranks, {} on the largest: weights {}, "
              "gradients {}, optimizer {}, activations {}, workspace {}), but {} is available; try "
              "recompute=full, zero=1, a smaller micro_batch_size or seq_len, or more machines "
              "(--dry-run prints every stage)",
              format_bytes(needed), run.local_ranks, format_bytes(memory.largest().total.bytes),
              format_bytes(memory.largest().weights.bytes),
              format_bytes(memory.largest().gradients.bytes),
              format_bytes(memory.largest().optimizer.bytes),
              format_bytes(memory.largest().activations.bytes),
              format_bytes(memory.largest().workspace.bytes), format_bytes(available));
}

}  // namespace

TrainRun resolve_train_run(const TrainConfig& config) {
  check_plain_values(config);
  TrainRun run;
  run.config = config;
  const bool launched = under_mpi_launcher();
  const int64_t known_ranks = launched ? launcher_world_size() : config.ranks;
  if (launched && config.ranks > 0 && config.ranks != known_ranks) {
    throw_error(ErrorCode::kInvalidArgument,
                "ranks={}: the launcher started {} processes, one a rank; leave --ranks out",
                config.ranks, known_ranks);
  }
  require(known_ranks <= 1000000, "ranks", fmt::format("{}", known_ranks), "at most 1000000");
  EngineConfig& engine = run.engine;
  engine.model = load_model_config(config.model);
  check_trainable(engine.model, config.model);
  engine.layout = resolve_layout(config, static_cast<int>(known_ranks));
  engine.batch = {.global_batch_size = config.global_batch_size,
                  .micro_batch_size = config.micro_batch_size,
                  .seq_len = config.seq_len};
  check_run({engine.model, engine.layout, engine.batch, static_cast<int>(known_ranks)});
  engine.compute_dtype = parse_precision(config.precision);
  engine.adamw = {.beta1 = config.beta1,
                  .beta2 = config.beta2,
                  .eps = config.eps,
                  .weight_decay = config.weight_decay};
  engine.clip_grad_norm = config.clip_grad_norm;
  engine.overlap_grad_reduce = config.overlap_grad_reduce;
  engine.bucket_count = config.bucket_mib * (1 << 20) / dtype_size(DType::kF32);
  engine.vocab_multiple = config.vocab_multiple;
  run.lr = {.lr = config.lr,
            .lr_min = config.lr_min,
            .warmup_steps = config.warmup_steps,
            .decay_steps = config.steps,
            .decay = parse_lr_decay(config.lr_decay)};
  run.world_size = engine.layout.world_size();
  run.local_ranks = run.world_size;
  if (launched) {
    run.local_ranks = launcher_local_size();
  }
  run.threads_per_rank = config.threads_per_rank > 0
                             ? static_cast<int>(config.threads_per_rank)
                             : std::max(1, available_cores() / run.local_ranks);
  if (!config.out.empty()) {
    run.checkpoint_dir = config.out + "/checkpoints";
    run.metrics_path = config.metrics.empty() ? config.out + "/metrics.jsonl" : config.metrics;
  } else {
    run.metrics_path = config.metrics;
  }
  check_fits(run);
  return run;
}

std::string describe_train_run(const TrainRun& run) {
  const Layout& layout = run.engine.layout;
  const MemoryEstimate memory = estimate(run);
  std::string text = fmt::format(
      "layout        {} ({} ranks, {} threads each), schedule {}, recompute {}\n"
      "model         {}, {} layers, {} parameters\n"
      "batch         {} rows of {} tokens a step: {} micro-batches of {} on each replica\n\n"
      "memory per rank (peaks; total is what is held at one time)\n"
      "  stage     weights   gradients   optimizer  activations   workspace       total\n",
      to_string(layout), run.world_size, run.threads_per_rank, schedule_name(layout.schedule),
      recompute_name(layout.recompute), family_name(run.engine.model.family),
      run.engine.model.num_layers,
      count_parameters(make_parameter_table(run.engine.model, {.tp = layout.tp})),
      run.engine.batch.global_batch_size, run.engine.batch.seq_len,
      run.engine.batch.num_microbatches(layout), run.engine.batch.micro_batch_size);
  for (const StageMemory& stage : memory.stages) {
    text += fmt::format("  {:5} {:>11} {:>11} {:>11} {:>12} {:>11} {:>11}\n", stage.stage,
                        format_bytes(stage.weights.bytes), format_bytes(stage.gradients.bytes),
                        format_bytes(stage.optimizer.bytes), format_bytes(stage.activations.bytes),
                        format_bytes(stage.workspace.bytes), format_bytes(stage.total.bytes));
  }
  text +=
      fmt::format("  this machine: {} needed, {} available\n",
                  format_bytes(local_bytes(run, memory)), format_bytes(available_memory_bytes()));
  text += "\nschedule (F forward, B backward; chunk.micro-batch)\n";
  const auto schedule = make_schedule(
      {.kind = layout.schedule,
       .pp = layout.pp,
       .vpp = layout.vpp,
       .num_microbatches = static_cast<int>(run.engine.batch.num_microbatches(layout))});
  for (size_t stage = 0; stage < schedule.size(); ++stage) {
    text += fmt::format("  stage {}:", stage);
    size_t shown = 0;
    for (const Action& action : schedule[stage]) {
      const bool compute =
          action.kind == ActionKind::kForward || action.kind == ActionKind::kBackward;
      if (compute && ++shown <= 24) {
        text += fmt::format(" {}{}.{}", action.kind == ActionKind::kForward ? 'F' : 'B',
                            action.chunk, action.microbatch);
      }
    }
    text += shown > 24 ? fmt::format(" ... ({} in all)\n", shown) : "\n";
  }
  text += fmt::format("\nfiles\n  checkpoints   {}\n  metrics       {}\n  trace         {}\n",
                      run.checkpoint_dir.empty() ? "none (give --out)" : run.checkpoint_dir,
                      run.metrics_path.empty() ? "none" : run.metrics_path,
                      run.config.trace.empty() ? "none" : run.config.trace);
  return text;
}

std::string train_run_json(const TrainRun& run) {
  Json stages = Json::array();
  const MemoryEstimate memory = estimate(run);
  for (const StageMemory& stage : memory.stages) {
    const auto number = [](const MemoryNumber& n) {
      return Json{{"bytes", n.bytes}, {"source", n.source}};
    };
    stages.push_back({{"stage", stage.stage},
                      {"weights", number(stage.weights)},
                      {"gradients", number(stage.gradients)},
                      {"optimizer", number(stage.optimizer)},
                      {"activations", number(stage.activations)},
                      {"comm", number(stage.comm)},
                      {"workspace", number(stage.workspace)},
                      {"total", number(stage.total)}});
  }
  return dump_json({{"layout", to_string(run.engine.layout)},
                    {"ranks", run.world_size},
                    {"threads_per_rank", run.threads_per_rank},
                    {"micro_batches", run.engine.batch.num_microbatches(run.engine.layout)},
                    {"memory", stages},
                    {"needed_bytes", local_bytes(run, memory)},
                    {"available_bytes", available_memory_bytes()},
                    {"checkpoints", run.checkpoint_dir},
                    {"metrics", run.metrics_path},
                    {"trace", run.config.trace}},
                   2);
}

}  // namespace plait
