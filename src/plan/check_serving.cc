#include "plan/check_serving.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/divisors.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/readers/vllm.h"
#include "plan/serve_estimate.h"
#include "spec/model_catalog.h"
#include "spec/parameter_table.h"

namespace plait {
namespace {

constexpr const char* kHeads = "vLLM vllm/config/model.py, verify_with_parallel_config";
constexpr const char* kCache = "vLLM vllm/v1/core/kv_cache_utils.py, check_enough_kv_cache_memory";
// What vLLM holds outside of PyTorch: 0.13 to 0.55 GiB on H100 (llm-d-planner).
constexpr double kOutside = 0.35 * kGiB;

class ServingChecker {
 public:
  ServingChecker(ServeCommand command, const Launch& launch, const std::string& origin,
                 const CheckOptions& options)
      : command_(std::move(command)),
        environment_(launch.environment),
        joins_ray_(launch.joins_ray),
        options_(options) {
    report_.origin = origin;
    report_.kind = command_.ascend ? "vllm-ascend command" : "vLLM command";
    report_.serves = true;
    report_.world_size =
        static_cast<int>(std::min<int64_t>(command_.tp * command_.pp * command_.dp, kMaxRanks));
    report_.unknown_flags = command_.flags.unknown();
    report_.assumptions = command_.flags.notes();
    report_.assumptions.insert(report_.assumptions.end(), launch.notes.begin(), launch.notes.end());
  }

  CheckReport run();

 private:
  void find_shape();
  void check_heads();
  std::string degrees_for(int64_t shown, int64_t replicas) const;
  void check_visible_devices();
  void check_numbers();
  void check_blocks();
  void check_length();
  void check_memory();
  void add(Severity severity, const char* flag, std::string value, std::string rule,
           std::string suggestion, const char* source);
  void say(std::string text) { report_.serving.push_back({std::move(text), {report_.origin, 0}}); }
  void assume(std::string text) {
    report_.assumptions.push_back({std::move(text), {report_.origin, 0}});
  }

  ServeCommand command_;
  const std::map<std::string, ShellWord>& environment_;
  bool joins_ray_;
  const CheckOptions& options_;
  CheckReport report_;
  ModelConfig model_;
  int64_t length_ = 0;
};

void ServingChecker::add(Severity severity, const char* flag, std::string value, std::string rule,
                         std::string suggestion, const char* source) {
  CheckProblem problem;
  problem.key = std::string("--") + flag;
  problem.value = std::move(value);
  problem.rule = std::move(rule);
  problem.suggestion = std::move(suggestion);
  problem.severity = severity;
  problem.source = source;
  problem.where = command_.flags.where(flag);
  report_.problems.push_back(std::move(problem));
}

void ServingChecker::find_shape() {
  const std::string name = options_.read.model.empty() ? command_.model : options_.read.model;
  const bool given = !options_.read.model.empty() || path_exists(name);
  const std::string best = given ? name : known_model(name);
  report_.has_model = !best.empty();
  if (best.empty()) {
    assume(
        fmt::format("the shape of '{}' is not known here: heads and memory are not checked; "
                    "give it with --model",
                    name.substr(0, 80)));
    return;
  }
  model_ = find_model(best);
  report_.job.model = model_;
  report_.job.model_name = model_title(best);
  if (command_.quantization.empty()) {
    const std::string& rest = command_.model;
    if (rest.find("w8a8") != std::string::npos || rest.find("FP8") != std::string::npos ||
        rest.find("W8A8") != std::string::npos || rest.find("Int8") != std::string::npos) {
      command_.quantization = "fp8";
      assume(fmt::format("'{}' holds weights of 8 bits by its name", rest));
    } else if (lower(best) == "deepseek-v3" && lower(rest).find("bf16") == std::string::npos &&
               lower(rest).find("deepseek") != std::string::npos) {
      command_.quantization = "fp8";
      assume("DeepSeek publishes these weights in FP8: so they are counted");
    }
  }
}

void ServingChecker::check_heads() {
  const int64_t tp = command_.tp;
  if (model_.num_heads % tp != 0) {
    add(Severity::kError, "tensor-parallel-size", std::to_string(tp),
        fmt::format("must divide the {} attention heads", model_.num_heads),
        fmt::format("--tensor-parallel-size {}", std::gcd(model_.num_heads, tp)), kHeads);
  } else if (model_.mla.kv_lora_rank == 0 && model_.num_kv_heads % tp != 0) {
    if (tp % model_.num_kv_heads == 0) {
      say(
          fmt::format("kv heads: {} for tp = {}: each is held {} times, the cache per rank no "
                      "longer shrinks",
                      model_.num_kv_heads, tp, tp / model_.num_kv_heads));
    } else {
      add(Severity::kError, "tensor-parallel-size", std::to_string(tp),
          fmt::format("must divide the {} kv heads, or be a multiple of them", model_.num_kv_heads),
          fmt::format("--tensor-parallel-size {}", std::gcd(model_.num_kv_heads, tp)), kHeads);
    }
  }
  if (command_.pp > model_.num_layers) {
    add(Severity::kError, "pipeline-parallel-size", std::to_string(command_.pp),
        fmt::format("must be at most the {} layers", model_.num_layers),
        fmt::format("--pipeline-parallel-size {}", 1), kHeads);
  }
  if (command_.expert_parallel && model_.moe.num_experts == 0) {
    add(Severity::kWarning, "enable-expert-parallel", "on", "the model has no experts",
        "leave it out", kHeads);
  }
  if (model_.ffn_hidden_size % tp != 0 && model_.moe.num_experts == 0) {
    add(Severity::kError, "tensor-parallel-size", std::to_string(tp),
        fmt::format("must divide the MLP's {} columns", model_.ffn_hidden_size),
        fmt::format("--tensor-parallel-size {}", std::gcd(model_.ffn_hidden_size, tp)), kHeads);
  }
}

// The degrees that `shown` devices hold: replicas go first, then stages, tensor parallelism last.
std::string ServingChecker::degrees_for(int64_t shown, int64_t replicas) const {
  const int64_t tp = command_.tp <= shown ? command_.tp : divisors(command_.tp, shown).back();
  const int64_t pp = std::min(command_.pp, shown / tp);
  const int64_t dp = std::min(replicas, shown / (tp * pp));
  const char* of_replicas = command_.flags.has("data-parallel-size-local")
                                ? "data-parallel-size-local"
                                : "data-parallel-size";
  const std::pair<const char*, std::pair<int64_t, int64_t>> degrees[] = {
      {"tensor-parallel-size", {command_.tp, tp}},
      {"pipeline-parallel-size", {command_.pp, pp}},
      {of_replicas, {replicas, dp}}};
  std::string text;
  for (const auto& [flag, values] : degrees) {
    if (values.first != values.second) {
      text += fmt::format("{}--{} {}", text.empty() ? "" : " ", flag, values.second);
    }
  }
  return text;
}

// One server shows its processes the devices of a list.
void ServingChecker::check_visible_devices() {
  const FlagSet& flags = command_.flags;
  const std::string backend = flags.text("distributed-executor-backend").value_or("");
  if (backend == "ray" || joins_ray_ || flags.integer("nnodes").value_or(1) > 1) {
    return;
  }
  const int64_t replicas = flags.integer("data-parallel-size-local")
                               .value_or(flags.has("data-parallel-address") ? 1 : command_.dp);
  const int64_t needed = command_.tp * command_.pp * replicas;
  for (const char* name : {"ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    const auto found = environment_.find(name);
    if (found == environment_.end() || !found->second.known() || found->second.text.empty()) {
      continue;
    }
    const std::string& list = found->second.text;
    const int64_t shown = 1 + std::count(list.begin(), list.end(), ',');
    if (shown >= needed) {
      continue;
    }
    CheckProblem problem;
    problem.key = name;
    problem.value = list.substr(0, 60);
    problem.rule = fmt::format("shows {} device{}, but tp * pp * dp = {} are started here", shown,
                               shown == 1 ? "" : "s", needed);
    problem.suggestion =
        fmt::format("{} devices in it, or {}", needed, degrees_for(shown, replicas));
    problem.source = "vLLM documentation, distributed serving";
    problem.where = {report_.origin, found->second.line};
    report_.problems.push_back(std::move(problem));
  }
}

void ServingChecker::check_numbers() {
  const double share = command_.gpu_memory_utilization;
  if (!(share > 0 && share <= 1)) {
    add(Severity::kError, "gpu-memory-utilization", fmt::format("{}", share),
        "must be above 0 and at most 1", "--gpu-memory-utilization 0.9",
        "vLLM vllm/config/cache.py");
    command_.gpu_memory_utilization = 0.9;
  } else if (share > 0.97) {
    add(Severity::kWarning, "gpu-memory-utilization", fmt::format("{}", share),
        "leaves nothing for what lies outside of vLLM's pool", "--gpu-memory-utilization 0.92",
        "vLLM documentation");
  }
  const int64_t batched = command_.max_num_batched_tokens;
  if (batched > 0 && batched < command_.max_num_seqs) {
    add(Severity::kError, "max-num-batched-tokens", std::to_string(batched),
        fmt::format("must be at least --max-num-seqs = {}", command_.max_num_seqs),
        fmt::format("--max-num-batched-tokens {}", command_.max_num_seqs),
        "vLLM vllm/config/scheduler.py");
  }
  if (batched > 0 && command_.chunked_prefill_off && command_.max_model_len > batched) {
    add(Severity::kError, "max-num-batched-tokens", std::to_string(batched),
        fmt::format("must be at least --max-model-len = {} without chunked prefill",
                    command_.max_model_len),
        fmt::format("--max-num-batched-tokens {}", command_.max_model_len),
        "vLLM vllm/config/scheduler.py");
  }
  check_blocks();
}

// The cache's blocks as they are set by hand, which one sequence must fit into.
void ServingChecker::check_blocks() {
  const auto blocks = command_.flags.integer("num-gpu-blocks-override");
  const auto block_size = command_.flags.integer("block-size");
  if (!blocks || (command_.ascend && !block_size)) {
    return;
  }
  constexpr int64_t kBlockSize = 16;
  constexpr int64_t kMostTokens = int64_t{1} << 30;
  const int64_t tokens =
      std::min(*blocks, kMostTokens) * std::min(block_size.value_or(kBlockSize), kMostTokens);
  const int64_t needed = command_.max_model_len;
  if (needed > tokens) {
    add(Severity::kError, "num-gpu-blocks-override", std::to_string(*blocks),
        fmt::format("{} blocks of {} tokens hold {} tokens, less than one sequence of "
                    "--max-model-len = {}",
                    *blocks, block_size.value_or(kBlockSize), tokens, needed),
        fmt::format("--max-model-len {}, or leave --num-gpu-blocks-override out", tokens),
        "vLLM vllm/v1/core/kv_cache_utils.py, check_enough_kv_cache_memory");
  }
}

void ServingChecker::check_length() {
  length_ = command_.max_model_len;
  const int64_t most = model_.max_position_embeddings;
  if (length_ == 0) {
    length_ = most > 0 ? most : 4096;
    say(fmt::format("length: --max-model-len is not given: the model's {} tokens", length_));
  } else if (most > 0 && length_ > most) {
    // vLLM takes it then, at the user's risk.
    const auto allowed = environment_.find("VLLM_ALLOW_LONG_MAX_MODEL_LEN");
    const bool may = allowed != environment_.end() && allowed->second.text == "1";
    add(may ? Severity::kWarning : Severity::kError, "max-model-len", std::to_string(length_),
        fmt::format("must be at most the model's max_position_embeddings = {}", most),
        fmt::format("--max-model-len {}, or a RoPE scaling that the model supports", most),
        "vLLM vllm/config/model.py, _get_and_verify_max_len");
  }
}

void ServingChecker::check_memory() {
  const Cluster cluster =
      options_.cluster ? *options_.cluster : load_cluster(command_.ascend ? "910b" : "a100");
  if (!options_.cluster) {
    assume(fmt::format("the chip is not in the command: {} is assumed; give it with --cluster",
                       cluster.chip.name));
  }
  double dense = 0;
  double experts = 0;
  for (const ParamSpec& spec : make_parameter_table(model_, {.tp = 1, .vocab_multiple = 1})) {
    (spec.experts > 0 ? experts : dense) += static_cast<double>(spec.count());
  }
  const double parameters = dense + experts;
  const auto ranks = static_cast<double>(command_.tp * command_.pp);
  // Experts spread over the data-parallel ranks too, with expert parallelism and without (vLLM
  // vllm/model_executor/layers/fused_moe/config.py, flatten_tp_across_dp).
  const double weights =
      (dense + experts / static_cast<double>(command_.dp)) * command_.weight_bytes() / ranks;
  const double peak = profile_peak_bytes(model_);
  const double pool = cluster.chip.memory_bytes.value * command_.gpu_memory_utilization;
  const double cache = pool - weights - peak - kOutside;
  const double per_token =
      kv_bytes_on_device(model_, command_.tp, command_.pp, command_.kv_bytes());
  const int64_t block = command_.ascend ? 128 : 16;
  say(fmt::format("weights: {:.2f} GiB on each of {} devices ({:.2f}e9 parameters)", weights / kGiB,
                  report_.world_size, parameters / 1e9));
  say(fmt::format(
      "KV cache: {:.0f} bytes a token on a device; {:.2f} GiB are left for it of {:.2f} "
      "(activations about {:.1f} GiB)",
      per_token, std::max(cache, 0.0) / kGiB, pool / kGiB, peak / kGiB));
  if (weights > pool) {
    add(Severity::kError, "tensor-parallel-size", std::to_string(command_.tp),
        fmt::format("the weights need {:.2f} GiB a device, {:.2f} GiB are usable", weights / kGiB,
                    pool / kGiB),
        fmt::format("--tensor-parallel-size {}, {}quantised weights", command_.tp * 2,
                    experts > 0 ? "more data-parallel ranks (they share the experts), or " : "or "),
        kCache);
    return;
  }
  const int64_t tokens = cache > 0 ? static_cast<int64_t>(cache / per_token) / block * block : 0;
  if (tokens < length_) {
    add(Severity::kError, "max-model-len", std::to_string(length_),
        fmt::format("one sequence of that length needs {:.2f} GiB of KV cache, {:.2f} GiB are left",
                    per_token * static_cast<double>(length_) / kGiB, std::max(cache, 0.0) / kGiB),
        tokens > 0 ? fmt::format("--max-model-len {}, or a larger tp", tokens)
                   : std::string("a larger tp, or quantised weights"),
        kCache);
    return;
  }
  say(fmt::format("sequences: {} of {} tokens fit at the same time (--max-num-seqs {})",
                  tokens / length_, length_, command_.max_num_seqs));
}

CheckReport ServingChecker::run() {
  report_.job.layout.tp = static_cast<int>(command_.tp);
  report_.job.layout.pp = static_cast<int>(command_.pp);
  report_.job.layout.dp = static_cast<int>(command_.dp);
  find_shape();
  check_numbers();
  check_visible_devices();
  if (report_.has_model) {
    check_heads();
    check_length();
    if (report_.num_errors() == 0) {
      check_memory();
    }
  }
  return std::move(report_);
}

}  // namespace

double kv_bytes_on_device(const ModelConfig& model, int64_t tp, int64_t pp, double element_bytes) {
  // The fullest stage: vLLM gives the layers that are left over to single stages.
  const int64_t layers_of_stage = (model.num_layers + pp - 1) / pp;
  const auto layers = static_cast<double>(layers_of_stage);
  if (model.mla.kv_lora_rank > 0) {
    return layers * static_cast<double>(model.mla.kv_lora_rank + model.mla.rope_head_dim) *
           element_bytes;
  }
  const auto heads = static_cast<double>(std::max<int64_t>(model.num_kv_heads / tp, 1));
  return layers * 2 * heads * static_cast<double>(model.head_dim) * element_bytes;
}

CheckReport check_serving(const Launch& launch, const std::string& origin,
                          const CheckOptions& options) {
  return ServingChecker(read_vllm(launch, origin), launch, origin, options).run();
}

}  // namespace plait
