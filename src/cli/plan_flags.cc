#include "cli/plan_flags.h"

#include <algorithm>
#include <charconv>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "spec/model_catalog.h"

namespace plait {
namespace {

DType parse_dtype(const std::string& name) {
  if (name == "bf16") {
    return DType::kBF16;
  }
  if (name == "fp16" || name == "f16") {
    return DType::kF16;
  }
  if (name == "fp32" || name == "f32") {
    return DType::kF32;
  }
  throw_error(ErrorCode::kInvalidArgument, "dtype={}: allowed are bf16, fp16 and fp32", name);
}

std::vector<int64_t> parse_list(const std::string& text) {
  std::vector<int64_t> numbers;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (stop < end && *stop != ',') || value < 1) {
      throw_error(ErrorCode::kInvalidArgument,
                  "stage_layers={}: whole numbers of at least 1, separated by commas", text);
    }
    numbers.push_back(value);
    at = stop + 1;
  }
  return numbers;
}

void need(bool given, const char* flag, const char* example) {
  if (!given) {
    throw_error(ErrorCode::kInvalidArgument, "{} is needed, for example {} {}", flag, flag,
                example);
  }
}

constexpr int64_t kMostRows = int64_t{1} << 24;
constexpr int64_t kMostTokens = int64_t{1} << 24;

void check_size(const char* key, int64_t value, int64_t most) {
  if (value < 1 || value > most) {
    throw_error(ErrorCode::kInvalidArgument, "{}={}: allowed are 1 to {}", key, value, most);
  }
}

// 0: not given.
void check_optional(const char* key, int64_t value, int64_t most) {
  if (value != 0) {
    check_size(key, value, most);
  }
}

// Rotary positions and ALiBi reach as far as one trains them; a table of positions does not.
void lengthen_positions(const PlanFlags& flags, TrainJob& job) {
  if (job.model.position != PositionType::kLearned && job.stack != Stack::kPlait) {
    job.model.max_position_embeddings = std::max(job.model.max_position_embeddings, flags.seq);
  }
}

void check_recompute_layers(const PlanFlags& flags, const TrainJob& job) {
  if (flags.recompute_layers == -1) {
    return;
  }
  check_size("recompute_layers", flags.recompute_layers, job.model.num_layers);
  if (job.layout.recompute != Recompute::kFull) {
    throw_error(ErrorCode::kInvalidArgument,
                "recompute_layers={}: needs --recompute full; without it nothing is recomputed by "
                "layers",
                flags.recompute_layers);
  }
}

}  // namespace

void add_problem_options(CLI::App& app, PlanFlags& flags) {
  app.add_option("--model", flags.model,
                 "name from the catalogue (plait plan models), HF directory or config.json");
  app.add_option("--cluster", flags.cluster,
                 "name from the catalogue (plait plan clusters) or TOML file");
  app.add_option("--devices", flags.devices, "devices to use; default: all of the cluster")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--global-batch", flags.global_batch, "sequences a step");
  app.add_option("--seq", flags.seq, "tokens of a sequence");
  app.add_option("--stack", flags.stack,
                 "what runs it: megatron, mindspeed, deepspeed, mindformers, plait")
      ->capture_default_str();
  app.add_option("--dtype", flags.dtype, "bf16, fp16 or fp32")->capture_default_str();
  app.add_option("--vocab-multiple", flags.vocab_multiple,
                 "the vocabulary is padded to a multiple of this times tp")
      ->capture_default_str();
  app.add_option("--cp-algorithm", flags.cp_algorithm, "ring or ulysses")->capture_default_str();
  app.add_option("--etp", flags.etp, "tensor parallelism inside an expert; default: as tp");
  app.add_option("--lora-rank", flags.lora_rank, "adapters of this rank on a frozen model");
  app.add_option("--dropout", flags.dropout, "probability; masks cost memory");
  app.add_flag("--no-flash-attention", flags.no_flash, "attention that stores its scores");
  app.add_flag("--overlap-grad-reduce", flags.overlap_grad_reduce);
  app.add_flag("--overlap-param-gather", flags.overlap_param_gather);
  app.add_flag("--overlap-tp-comm", flags.overlap_tp_comm, "MC2, CoC, userbuffers");
  app.add_flag("--reuse-fp32-param", flags.reuse_fp32_param, "MindSpeed's");
  app.add_flag("--offload-optimizer", flags.offload_optimizer, "states and step on the host");
  app.add_flag("--json", flags.json, "print the result as JSON");
}

void add_layout_options(CLI::App& app, PlanFlags& flags) {
  app.add_option("--layout", flags.layout, "for example dp2.tp8.pp4.vpp2.sp.zero1");
  app.add_option("--micro-batch", flags.micro_batch, "sequences a micro-batch")
      ->capture_default_str();
  app.add_option("--recompute", flags.recompute, "none, selective or full")->capture_default_str();
  app.add_option("--recompute-layers", flags.recompute_layers,
                 "under full: layers of each virtual stage; default: all");
  app.add_flag("--pp-before-dp", flags.pp_before_dp,
               "ranks in the order tp, cp, pp, dp: neighbouring stages share a server");
  app.add_option("--schedule", flags.schedule, "gpipe, 1f1b, interleaved or zb-h1");
  app.add_option("--stage-layers", flags.stage_layers, "layers of each stage, for example 9,9,9,5");
}

TrainJob job_of(const PlanFlags& flags) {
  need(!flags.model.empty(), "--model", "llama2-13b");
  need(flags.global_batch != 0, "--global-batch", "512");
  need(flags.seq != 0, "--seq", "4096");
  check_size("global_batch", flags.global_batch, kMostRows);
  check_size("seq", flags.seq, kMostTokens);
  check_size("micro_batch", flags.micro_batch, kMostRows);
  check_size("vocab_multiple", flags.vocab_multiple, 1 << 20);
  check_optional("etp", flags.etp, 1000000);
  check_optional("lora_rank", flags.lora_rank, 1 << 20);
  if (!(flags.dropout >= 0 && flags.dropout < 1)) {
    throw_error(ErrorCode::kInvalidArgument, "dropout={}: allowed are 0 to below 1", flags.dropout);
  }
  if (flags.cp_algorithm != "ring" && flags.cp_algorithm != "ulysses") {
    throw_error(ErrorCode::kInvalidArgument, "cp_algorithm={}: allowed are ring and ulysses",
                flags.cp_algorithm);
  }
  TrainJob job;
  job.model_name = flags.model;
  job.model = find_model(flags.model);
  job.batch = {.global_batch_size = flags.global_batch,
               .micro_batch_size = flags.micro_batch,
               .seq_len = flags.seq};
  job.stack = parse_stack(flags.stack);
  job.dtype = parse_dtype(flags.dtype);
  job.vocab_multiple = flags.vocab_multiple;
  job.etp = flags.etp;
  job.cp_algorithm = flags.cp_algorithm == "ring" ? CpAlgorithm::kRing : CpAlgorithm::kUlysses;
  job.flash_attention = !flags.no_flash;
  job.dropout = flags.dropout;
  job.overlap_grad_reduce = flags.overlap_grad_reduce;
  job.overlap_param_gather = flags.overlap_param_gather;
  job.overlap_tp_comm = flags.overlap_tp_comm;
  job.reuse_fp32_param = flags.reuse_fp32_param;
  job.offload_optimizer = flags.offload_optimizer;
  job.lora.rank = flags.lora_rank;
  lengthen_positions(flags, job);
  return job;
}

TrainJob job_with_layout(const PlanFlags& flags, const std::string& layout) {
  need(!layout.empty(), "--layout", "tp8.pp2.sp.zero1");
  TrainJob job = job_of(flags);
  Layout base;
  base.recompute = parse_recompute(flags.recompute);
  base.stage_layers = parse_list(flags.stage_layers);
  job.layout = parse_layout(layout, base);
  if (!flags.schedule.empty()) {
    job.layout.schedule = parse_schedule(flags.schedule);
    if (job.layout.schedule == ScheduleKind::kInterleaved && job.layout.vpp < 2) {
      throw_error(
          ErrorCode::kInvalidArgument,
          "schedule=interleaved: needs vpp of at least 2 in the layout, for example pp4.vpp2");
    }
  }
  check_recompute_layers(flags, job);
  job.recompute_layers = flags.recompute_layers;
  job.pp_before_dp = flags.pp_before_dp;
  if (job.pp_before_dp && job.layout.ep > 1) {
    throw_error(ErrorCode::kInvalidArgument,
                "pp_before_dp=on: with ep={} the groups of experts lie across replicas, so that pp "
                "must be the outermost axis; leave it out",
                job.layout.ep);
  }
  if (flags.devices > 0 && layout.find("dp") == std::string::npos) {
    const int block = job.layout.tp * job.layout.pp * job.layout.cp;
    if (flags.devices % block != 0) {
      throw_error(ErrorCode::kInvalidArgument,
                  "layout={}: tp x pp x cp = {} does not divide {} devices", layout, block,
                  flags.devices);
    }
    job.layout.dp = flags.devices / block;
  }
  return job;
}

Cluster cluster_of(const PlanFlags& flags, int devices) {
  need(!flags.cluster.empty(), "--cluster", "910b3x8");
  const Cluster cluster = load_cluster(flags.cluster);
  return devices > 0 ? with_devices(cluster, devices) : cluster;
}

}  // namespace plait
