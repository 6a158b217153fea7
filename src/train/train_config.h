// Everything a user can set about a training run: one struct, one table of options that both the
// command line and the run file are read through.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "train/engine.h"
#include "train/lr_schedule.h"

namespace plait {

struct TrainConfig {
  // model
  std::string model;      // HF config.json, or a directory with one
  bool finetune = false;  // start from the directory's weights
  std::string precision = "f32";
  int64_t vocab_multiple = 1;
  // data
  std::string data;  // PREFIX of a .bin/.idx pair, or a .jsonl file
  double val_fraction = 0.02;
  bool mask_document_starts = false;
  // layout
  std::string layout;
  int64_t dp = 0, tp = 0, pp = 0, vpp = 0, cp = 0, ep = 0, zero = -1;  // 0 or -1: not set
  bool sp = false;
  std::string schedule;
  std::string recompute = "none";
  std::vector<int64_t> stage_layers;
  // machine
  int64_t ranks = 0;             // 0: what the launcher or the layout says
  int64_t threads_per_rank = 0;  // 0: cores / ranks on this host
  std::string device = "cpu";
  double deadline_s = 30;
  int64_t bucket_mib = 16;
  bool overlap_grad_reduce = true;
  // batch
  int64_t steps = 100;
  int64_t global_batch_size = 8;
  int64_t micro_batch_size = 1;
  int64_t seq_len = 128;
  int64_t seed = 1;
  // optimizer
  double lr = 1e-3, lr_min = 0;
  std::string lr_decay = "cosine";
  int64_t warmup_steps = 0;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double clip_grad_norm = 1.0;
  // output
  std::string out;         // run directory; empty: nothing is written
  int64_t save_every = 0;  // steps; 0: only at the end
  int64_t keep_last = 3;
  bool async_save = false;
  bool resume = false;
  int64_t eval_every = 0;  // steps; 0: only at the end
  int64_t eval_batches = 4;
  std::string metrics;  // JSON lines; empty: <out>/metrics.jsonl if out is set
  std::string trace;    // Chrome trace; empty: none
  double grace_s = 30;  // for the checkpoint after Ctrl-C or SIGTERM
};

// One option: "--name" on the command line, "name" in [section] of the run file.
struct TrainOption {
  const char* section;
  const char* name;  // with underscores; the flag has dashes
  const char* help;
  std::variant<int64_t*, double*, bool*, std::string*, std::vector<int64_t>*> target;
};
std::vector<TrainOption> train_options(TrainConfig& config);

// Sets what the TOML file sets. Errors: see spec/run_file.h.
void apply_run_file(const std::string& path, TrainConfig& config);

// A config that has been checked against the model and this machine, before anything is allocated.
struct TrainRun {
  TrainConfig config;
  EngineConfig engine;
  LrSchedule lr;
  int world_size = 1;
  int local_ranks = 1;  // in this process or, under a launcher, assumed on this host
  int threads_per_rank = 1;
  std::string metrics_path;    // empty: none
  std::string checkpoint_dir;  // empty: none
};

// Errors: kInvalidArgument and kNotImplemented naming key, value, rule and a suggestion; kNotFound;
// kInvalidArgument if the ranks of this host would need more memory than it has.
TrainRun resolve_train_run(const TrainConfig& config);

// Layout, memory per stage, the schedule and the files, as --dry-run prints it.
std::string describe_train_run(const TrainRun& run);
// The same as JSON text.
std::string train_run_json(const TrainRun& run);

}  // namespace plait
