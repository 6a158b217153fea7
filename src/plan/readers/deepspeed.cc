#include "plan/readers/deepspeed.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json_full.h"
#include "base/suggest.h"
#include "plan/readers/deepspeed_reader.h"

namespace plait {
namespace {

constexpr const char* kConfigDocs = "DeepSpeed docs/_pages/config-json.md";
constexpr std::string_view kTopKeys[] = {"train_batch_size",
                                         "train_micro_batch_size_per_gpu",
                                         "gradient_accumulation_steps",
                                         "optimizer",
                                         "scheduler",
                                         "communication_data_type",
                                         "prescale_gradients",
                                         "gradient_predivide_factor",
                                         "sparse_gradients",
                                         "fp16",
                                         "bf16",
                                         "amp",
                                         "gradient_clipping",
                                         "zero_optimization",
                                         "zero_allow_untested_optimizer",
                                         "zero_force_ds_cpu_optimizer",
                                         "steps_per_print",
                                         "wall_clock_breakdown",
                                         "dump_state",
                                         "flops_profiler",
                                         "activation_checkpointing",
                                         "sparse_attention",
                                         "aio",
                                         "autotuning",
                                         "tensorboard",
                                         "wandb",
                                         "csv_monitor",
                                         "comet",
                                         "elasticity",
                                         "data_efficiency",
                                         "curriculum_learning",
                                         "compression_training",
                                         "checkpoint",
                                         "data_types",
                                         "hybrid_engine",
                                         "comms_logger",
                                         "memory_breakdown",
                                         "pipeline",
                                         "seed",
                                         "eigenvalue",
                                         "quantize_training",
                                         "disable_allgather",
                                         "tensor_parallel",
                                         "sequence_parallel_size",
                                         "compile",
                                         "torch_autocast",
                                         "nebula",
                                         "monitor_config",
                                         "load_universal_checkpoint",
                                         "use_data_before_expert_parallelism",
                                         "gradient_allreduce_precision",
                                         "inference",
                                         "zero_quantized_weights",
                                         "timers",
                                         "data_parallel_size",
                                         "graph_harvesting",
                                         "dataloader_drop_last",
                                         "progressive_layer_drop"};

constexpr std::string_view kZeroKeys[] = {"stage",
                                          "allgather_partitions",
                                          "allgather_bucket_size",
                                          "overlap_comm",
                                          "reduce_scatter",
                                          "reduce_bucket_size",
                                          "contiguous_gradients",
                                          "grad_hooks",
                                          "round_robin_gradients",
                                          "offload_param",
                                          "offload_optimizer",
                                          "cpu_offload",
                                          "cpu_offload_params",
                                          "cpu_offload_use_pin_memory",
                                          "sub_group_size",
                                          "stage3_max_live_parameters",
                                          "stage3_max_reuse_distance",
                                          "stage3_prefetch_bucket_size",
                                          "stage3_param_persistence_threshold",
                                          "stage3_model_persistence_threshold",
                                          "stage3_gather_16bit_weights_on_model_save",
                                          "stage3_gather_fp16_weights_on_model_save",
                                          "stage3_use_all_reduce_for_fetch_params",
                                          "stage3_module_granularity_threshold",
                                          "ignore_unused_parameters",
                                          "legacy_stage1",
                                          "load_from_fp32_weights",
                                          "elastic_checkpoint",
                                          "zero_hpz_partition_size",
                                          "zero_quantized_weights",
                                          "zero_quantized_nontrainable_weights",
                                          "zero_quantized_gradients",
                                          "mics_shard_size",
                                          "mics_hierarchical_params_gather",
                                          "memory_efficient_linear",
                                          "pipeline_loading_checkpoint",
                                          "override_module_apply",
                                          "use_multi_rank_bucket_allreduce",
                                          "log_trace_cache_warnings",
                                          "zeropp_loco_param",
                                          "use_all_reduce_for_fetch_params",
                                          "param_persistence_threshold"};

void list_unknown(const Json& object, std::string_view prefix, const std::string_view* begin,
                  const std::string_view* end, DeepSpeedReader& reader) {
  const std::vector<std::string> known(begin, end);
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const std::string path = std::string(prefix) + key;
      reader.unknown(path, nearest_name(key, known));
    }
  }
}

bool is_space_or_colon(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ':';
}

}  // namespace

int json_key_line(const std::string& text, const std::string& path) {
  size_t at = 0;
  size_t begin = 0;
  size_t found = std::string::npos;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string quoted = "\"" + path.substr(begin, end - begin) + "\"";
    while (true) {
      found = text.find(quoted, at);
      if (found == std::string::npos) {
        return 0;
      }
      at = found + quoted.size();
      if (at < text.size() && is_space_or_colon(text[at])) {
        break;
      }
    }
    begin = end + 1;
  }
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(found), '\n'));
}

DeepSpeedReader::DeepSpeedReader(const std::string& text, std::string origin,
                                 const ReadOptions& options, int first_line)
    : text_(text), options_(options), first_line_(first_line) {
  out_.origin = std::move(origin);
  out_.kind = "DeepSpeed configuration";
  out_.job.stack = Stack::kDeepSpeed;
}

SourceLine DeepSpeedReader::where(const std::string& path) const {
  const int line = json_key_line(text_, path);
  return {out_.origin, line > 0 ? line + first_line_ - 1 : 0};
}

void DeepSpeedReader::unknown(const std::string& path, const std::string& nearest) {
  constexpr size_t kMaxUnknown = 100;
  if (out_.unknown_flags.size() < kMaxUnknown) {
    out_.unknown_flags.push_back({path.substr(0, 80), nearest, where(path)});
  }
}

void DeepSpeedReader::problem(const std::string& path, std::string value, std::string rule,
                              std::string suggestion, const char* source) {
  CheckProblem found;
  found.key = path;
  found.value = std::move(value);
  found.rule = std::move(rule);
  found.suggestion = std::move(suggestion);
  found.source = source;
  found.where = where(path);
  out_.problems.push_back(std::move(found));
}

void DeepSpeedReader::mark(const char* key, const std::string& path, const std::string& value) {
  out_.settings[key] = {path, value, where(path)};
}

// Absent: no key, or "auto" (HF's Trainer fills it in).
std::optional<int64_t> DeepSpeedReader::size(const Json& object, const char* key,
                                             const std::string& path, int64_t least) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    return std::nullopt;
  }
  if (found->is_string() && found->get<std::string>() == "auto") {
    autos_.push_back(path);
    return std::nullopt;
  }
  const bool integral = found->is_number_integer();
  const int64_t value =
      integral && !(found->is_number_unsigned() &&
                    found->get<uint64_t>() > static_cast<uint64_t>(kMaxDeepSpeedBatch))
          ? found->get<int64_t>()
          : -1;
  if (!integral || value < least || value > kMaxDeepSpeedBatch) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: {} is {}, but must be a whole number of {} to {}, or \"auto\"",
                where(path).text(), path, found->dump().substr(0, 40), least, kMaxDeepSpeedBatch);
  }
  return value;
}

bool DeepSpeedReader::enabled(const Json& root, const char* key) {
  const auto found = root.find(key);
  if (found == root.end() || !found->is_object()) {
    return false;
  }
  const auto flag = found->find("enabled");
  if (flag != found->end() && flag->is_string()) {
    autos_.push_back(std::string(key) + ".enabled");
    return false;
  }
  return flag == found->end() || (flag->is_boolean() && flag->get<bool>());
}

void DeepSpeedReader::read_zero(const Json& root) {
  const auto zero = root.find("zero_optimization");
  if (zero == root.end()) {
    return;
  }
  TrainJob& job = out_.job;
  if (zero->is_boolean()) {
    job.layout.zero = zero->get<bool>() ? 1 : 0;
    return;
  }
  if (!zero->is_object()) {
    throw_error(ErrorCode::kInvalidArgument, "{}: zero_optimization must be an object",
                where("zero_optimization").text());
  }
  list_unknown(*zero, "zero_optimization.", std::begin(kZeroKeys), std::end(kZeroKeys), *this);
  const int64_t stage = size(*zero, "stage", "zero_optimization.stage", 0).value_or(0);
  if (stage > 3) {
    problem("zero_optimization.stage", std::to_string(stage), "must be 0, 1, 2 or 3", "3",
            kConfigDocs);
  }
  job.layout.zero = static_cast<int>(std::min<int64_t>(stage, 3));
  mark("zero", "zero_optimization.stage", std::to_string(stage));
  const auto device = [&](const char* key) -> std::string {
    const auto section = zero->find(key);
    if (section == zero->end() || !section->is_object()) {
      return "";
    }
    const auto value = section->find("device");
    return value != section->end() && value->is_string() ? value->get<std::string>() : "";
  };
  const std::string optimizer = device("offload_optimizer");
  const std::string parameters = device("offload_param");
  const auto old = zero->find("cpu_offload");
  const bool old_offload = old != zero->end() && old->is_boolean() && old->get<bool>();
  job.offload_optimizer = optimizer == "cpu" || optimizer == "nvme" || old_offload;
  if (job.offload_optimizer) {
    mark("offload", "zero_optimization.offload_optimizer", optimizer);
    if (stage < 1) {
      problem("zero_optimization.offload_optimizer", optimizer, "needs ZeRO stage 1, 2 or 3",
              "zero_optimization.stage = 2", kConfigDocs);
    }
  }
  read_buckets(*zero);
  if (parameters == "cpu" || parameters == "nvme") {
    if (stage != 3) {
      problem("zero_optimization.offload_param", parameters, "needs ZeRO stage 3",
              "zero_optimization.stage = 3, or leave it out", kConfigDocs);
    } else {
      out_.assumptions.push_back(
          {"weights that are offloaded are counted on the device: the estimate is too high by "
           "them",
           where("zero_optimization.offload_param")});
    }
  }
}

// Elements of the buckets. Values such as 5e8 are floating-point numbers in JSON.
void DeepSpeedReader::read_buckets(const Json& zero) {
  const auto elements = [&](const char* key, double otherwise) {
    const auto found = zero.find(key);
    return found != zero.end() && found->is_number() ? std::clamp(found->get<double>(), 0.0, 1e12)
                                                     : otherwise;
  };
  const auto overlap = zero.find("overlap_comm");
  const int stage = out_.job.layout.zero;
  const bool overlaps =
      overlap != zero.end() && overlap->is_boolean() ? overlap->get<bool>() : stage == 3;
  const auto automatic = zero.find("reduce_bucket_size");
  auto_buckets_ = automatic != zero.end() && automatic->is_string();
  // "overlap_comm uses 4.5x the allgather_bucket_size and reduce_bucket_size values" (HF's guide to
  // DeepSpeed).
  bucket_copies_ = overlaps ? 4.5 : 1;
  reduce_elements_ = stage > 0 ? elements("reduce_bucket_size", 5e8) : 0;
  gather_elements_ = stage == 1 || stage == 2 ? elements("allgather_bucket_size", 5e8) : 0;
  live_elements_ = stage == 3 ? elements("stage3_max_live_parameters", 1e9) +
                                    elements("stage3_prefetch_bucket_size", 5e7)
                              : 0;
}

void DeepSpeedReader::read_precision(const Json& root) {
  TrainJob& job = out_.job;
  const bool fp16 = enabled(root, "fp16");
  const bool bf16 = enabled(root, "bf16");
  if (fp16 && bf16) {
    problem("bf16.enabled", "true", "fp16 and bf16 cannot both be enabled",
            "fp16.enabled = false, or bf16.enabled = false",
            "DeepSpeed deepspeed/runtime/config.py, _do_sanity_check");
  }
  job.dtype = bf16 ? DType::kBF16 : fp16 ? DType::kF16 : DType::kF32;
  const bool automatic = std::find(autos_.begin(), autos_.end(), "bf16.enabled") != autos_.end() ||
                         std::find(autos_.begin(), autos_.end(), "fp16.enabled") != autos_.end();
  if (!fp16 && !bf16 && automatic) {
    job.dtype = DType::kBF16;
    out_.assumptions.push_back({"the precision is \"auto\": bf16 is assumed", where("bf16")});
  }
  const auto checkpointing = root.find("activation_checkpointing");
  if (checkpointing != root.end() && checkpointing->is_object()) {
    job.layout.recompute = Recompute::kFull;
    mark("recompute", "activation_checkpointing", "");
    out_.assumptions.push_back(
        {"activation_checkpointing is set: every layer is taken to recompute",
         where("activation_checkpointing")});
  }
}

void DeepSpeedReader::read_batch(const Json& root) {
  batch_ = size(root, "train_batch_size", "train_batch_size");
  micro_ = size(root, "train_micro_batch_size_per_gpu", "train_micro_batch_size_per_gpu");
  steps_ = size(root, "gradient_accumulation_steps", "gradient_accumulation_steps");
  mark("global_batch_size", "train_batch_size", batch_ ? std::to_string(*batch_) : "");
  mark("micro_batch_size", "train_micro_batch_size_per_gpu", micro_ ? std::to_string(*micro_) : "");
}

void DeepSpeedReader::read_config() {
  Json root = parse_json(text_, out_.origin);
  if (!root.is_object()) {
    throw_error(ErrorCode::kInvalidArgument, "{}: a DeepSpeed configuration is a JSON object",
                out_.origin);
  }
  if (root.contains("architectures") && root.contains("model_type")) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: is the configuration of a model, not of a launch: give it as --model with the "
                "file that starts the training",
                out_.origin);
  }
  list_unknown(root, "", std::begin(kTopKeys), std::end(kTopKeys), *this);
  read_batch(root);
  read_zero(root);
  read_precision(root);
  if (const auto tensor = root.find("tensor_parallel");
      tensor != root.end() && tensor->is_object()) {
    const int64_t tp = size(*tensor, "autotp_size", "tensor_parallel.autotp_size").value_or(1);
    out_.job.layout.tp = static_cast<int>(std::min<int64_t>(tp, kMaxRanks));
    mark("tp", "tensor_parallel.autotp_size", std::to_string(tp));
  }
  const int64_t ulysses =
      size(root, "sequence_parallel_size", "sequence_parallel_size").value_or(1);
  out_.job.layout.cp = static_cast<int>(std::min<int64_t>(ulysses, 1024));
  out_.job.cp_algorithm = CpAlgorithm::kUlysses;
  mark("cp", "sequence_parallel_size", std::to_string(ulysses));
  if (const auto types = root.find("data_types"); types != root.end() && types->is_object()) {
    const auto grads = types->find("grad_accum_dtype");
    if (grads != types->end() && grads->is_string() && grads->get<std::string>() == "fp32") {
      out_.job.grad_bytes = 4;
    }
  }
}

ReadJob DeepSpeedReader::read() {
  read_config();
  settle_world();
  settle_batch();
  settle_model();
  settle_buckets();
  for (const std::string& path : autos_) {
    out_.not_evaluated.push_back({path + " is \"auto\": the program decides", where(path)});
  }
  return std::move(out_);
}

ReadJob read_deepspeed(const std::string& text, const std::string& origin,
                       const ReadOptions& options) {
  return DeepSpeedReader(text, origin, options, 1).read();
}

}  // namespace plait
