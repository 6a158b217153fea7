#include "plan/readers/megatron.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "plan/readers/megatron_flags.h"
#include "plan/readers/megatron_reader.h"

namespace plait {
namespace {

constexpr int64_t kMaxDegree = 1000000;

// ms-swift's names for what Megatron-LM calls otherwise.
std::vector<ShellWord> translated(const Launch& launch) {
  std::vector<ShellWord> words = launch.arguments;
  if (launch.kind != ProgramKind::kSwift) {
    return words;
  }
  std::vector<ShellWord> kept;
  bool lora = false;
  bool has_rank = false;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string& text = words[i].text;
    if (text == "--max_length" || text == "--max-length") {
      text = "--seq-length";
    } else if (text == "--lora_rank") {
      text = "--lora-r";
    } else if (text == "--target_modules") {
      text = "--lora-target-modules";
    } else if ((text == "--train_type" || text == "--tuner_type") && i + 1 < words.size()) {
      lora = words[i + 1].text == "lora";
      ++i;
      continue;
    }
    has_rank = has_rank || text == "--lora-r";
    const bool is_flag = text.starts_with("--");
    const bool has_value = i + 1 < words.size() && !words[i + 1].text.starts_with("--");
    if (is_flag && has_value && words[i + 1].text == "false") {
      ++i;  // switched off
      continue;
    }
    kept.push_back(words[i]);
    if (is_flag && has_value && words[i + 1].text == "true") {
      ++i;
    }
  }
  if (lora && !has_rank) {
    for (const char* text : {"--lora-r", "8"}) {  // the default
      kept.emplace_back().text = text;
    }
  }
  return kept;
}

}  // namespace

MegatronReader::MegatronReader(const Launch& launch, const std::string& origin,
                               const ReadOptions& options)
    : launch_(launch), options_(options), flags_(translated(launch), megatron_flags(), origin) {
  out_.origin = origin;
  given_model_ = options.model;
  for (size_t i = 0; i + 1 < launch.arguments.size() && given_model_.empty(); ++i) {
    if (launch.kind == ProgramKind::kSwift && launch.arguments[i].text == "--model") {
      given_model_ = known_model(launch.arguments[i + 1].text);
    }
  }
}

// ms-swift: on unless it is switched off (swift/megatron/arguments/megatron_args.py).
bool MegatronReader::swift_shards_optimizer() const {
  if (launch_.kind != ProgramKind::kSwift) {
    return false;
  }
  for (size_t i = 0; i + 1 < launch_.arguments.size(); ++i) {
    const std::string& flag = launch_.arguments[i].text;
    if (flag == "--use_distributed_optimizer" || flag == "--use-distributed-optimizer") {
      return launch_.arguments[i + 1].text != "false";
    }
  }
  return true;
}

bool MegatronReader::any(std::initializer_list<const char*> names) const {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return flags_.has(name); });
}

void MegatronReader::mark(const char* key, const char* flag) {
  if (const FlagUse* use = flags_.find(flag)) {
    out_.settings[key] = {use->written, use->values.empty() ? "" : use->values.front().text,
                          flags_.where(flag)};
  }
}

int64_t MegatronReader::setting(const char* key, const char* flag, int64_t otherwise,
                                int64_t least) {
  const std::optional<int64_t> value = flags_.integer(flag, least);
  if (!value) {
    return otherwise;
  }
  mark(key, flag);
  return *value;
}

void MegatronReader::assume(std::string text, const char* flag) {
  out_.assumptions.push_back(
      {std::move(text), flag == nullptr ? SourceLine{out_.origin, 0} : flags_.where(flag)});
}

void MegatronReader::assume_less_memory(std::initializer_list<const char*> flags, const char* why) {
  for (const char* flag : flags) {
    if (flags_.has(flag)) {
      assume(fmt::format(fmt::runtime(why), flag), flag);
      out_.memory_is_upper_bound = true;
    }
  }
}

void MegatronReader::problem(Severity severity, const char* flag, std::string rule,
                             std::string suggestion, std::string source) {
  CheckProblem found;
  const FlagUse* use = flags_.find(flag);
  found.key = use == nullptr ? std::string("--") + flag : use->written;
  found.value = use == nullptr        ? "absent"
                : use->values.empty() ? "on"
                                      : use->values.front().text.substr(0, 60);
  found.rule = std::move(rule);
  found.suggestion = std::move(suggestion);
  found.severity = severity;
  found.source = std::move(source);
  found.where = flags_.where(flag);
  out_.problems.push_back(std::move(found));
}

void MegatronReader::read_stack() {
  const bool ascend = flags_.any_vendor() || has_ascend_variables(launch_.environment);
  out_.job.stack = ascend ? Stack::kMindSpeed : Stack::kMegatron;
  const char* what = launch_.kind == ProgramKind::kPlain   ? "arguments"
                     : launch_.kind == ProgramKind::kSwift ? "command of ms-swift"
                                                           : "launch script";
  out_.kind = fmt::format("{} {}", ascend ? "MindSpeed" : "Megatron-LM", what);
}

void MegatronReader::read_degrees() {
  Layout& layout = out_.job.layout;
  const auto degree = [&](const char* key, const char* flag) {
    const int64_t value = setting(key, flag, 1);
    if (value > kMaxDegree) {
      throw_error(ErrorCode::kInvalidArgument, "{}: --{} is {}, at most {} are possible",
                  flags_.where(flag).text(), flag, value, kMaxDegree);
    }
    return static_cast<int>(value);
  };
  layout.tp = degree("tp", "tensor-model-parallel-size");
  layout.pp = degree("pp", "pipeline-model-parallel-size");
  layout.cp = degree("cp", "context-parallel-size");
  layout.ep = degree("ep", "expert-model-parallel-size");
  out_.job.etp =
      flags_.has("expert-tensor-parallel-size") ? degree("etp", "expert-tensor-parallel-size") : 0;
  if (launch_.kind == ProgramKind::kSwift && out_.job.etp == 0) {
    out_.job.etp = 1;  // ms-swift's default
  }
  layout.sp = flags_.has("sequence-parallel");
  mark("sp", "sequence-parallel");
  layout.zero = flags_.has("use-distributed-optimizer") || swift_shards_optimizer() ? 1 : 0;
  mark("zero", "use-distributed-optimizer");
  const std::string sharding = flags_.text("data-parallel-sharding-strategy").value_or("");
  if (any({"use-megatron-fsdp", "use-custom-fsdp"})) {
    layout.zero = sharding == "optim_grads_params" ? 3
                  : sharding == "optim_grads"      ? 2
                  : sharding == "optim"            ? 1
                                                   : layout.zero;
    mark("zero", "data-parallel-sharding-strategy");
  }
  if (flags_.has("deepspeed")) {  // Megatron-DeepSpeed
    out_.job.stack = Stack::kDeepSpeed;
    out_.kind = "Megatron-DeepSpeed launch script";
    layout.zero = static_cast<int>(std::min<int64_t>(setting("zero", "zero-stage", 0, 0), 3));
    layout.pp = flags_.has("no-pipeline-parallel") ? 1 : layout.pp;
  }
  if (any({"use-torch-fsdp2", "enable-zero3", "layerzero"})) {
    layout.zero = 3;
    mark("zero", flags_.has("use-torch-fsdp2") ? "use-torch-fsdp2" : "enable-zero3");
  }
  std::string algorithm = flags_.text("context-parallel-algo").value_or("");
  if (algorithm.empty()) {
    algorithm = flags_.text("cp-comm-type").value_or("p2p");
  }
  mark("cp_algorithm",
       flags_.has("context-parallel-algo") ? "context-parallel-algo" : "cp-comm-type");
  if (algorithm == "ulysses_cp_algo" || algorithm == "a2a") {
    out_.job.cp_algorithm = CpAlgorithm::kUlysses;
  } else if (layout.cp > 1 && algorithm != "megatron_cp_algo" && algorithm != "p2p") {
    assume(fmt::format("context parallelism by {} is estimated as a ring", algorithm),
           flags_.has("context-parallel-algo") ? "context-parallel-algo" : "cp-comm-type");
  }
}

void MegatronReader::read_world() {
  Layout& layout = out_.job.layout;
  const int64_t model_parallel = static_cast<int64_t>(layout.tp) * layout.pp * layout.cp;
  int64_t world = options_.devices > 0 ? options_.devices : launch_.world_size();
  out_.settings["world_size"] = {
      options_.devices > 0 ? "--devices" : "world_size", std::to_string(world),
      launch_.world_where.file.empty() ? SourceLine{out_.origin, launch_.line}
                                       : launch_.world_where};
  if (world == 0) {
    world = std::min(model_parallel, kMaxDegree);
    assume(
        fmt::format("the number of devices is not given: one replica on {} is assumed; give "
                    "--devices N",
                    world));
  }
  out_.world_size = static_cast<int>(world);
  layout.dp = static_cast<int>(std::max<int64_t>(world / model_parallel, 1));
}

void MegatronReader::read_batch() {
  BatchConfig& batch = out_.job.batch;
  batch.micro_batch_size = setting("micro_batch_size", "micro-batch-size", 0);
  if (batch.micro_batch_size == 0) {
    batch.micro_batch_size = std::max<int64_t>(options_.micro_batch_size, 1);
    assume(fmt::format("--micro-batch-size is absent: {} is assumed", batch.micro_batch_size));
  }
  batch.global_batch_size = setting("global_batch_size", "global-batch-size", 0);
  if (batch.global_batch_size == 0) {
    batch.global_batch_size = batch.micro_batch_size * out_.job.layout.dp;
    assume(fmt::format("--global-batch-size is absent: one micro-batch a replica, {}",
                       batch.global_batch_size));
  }
  batch.seq_len = setting("seq_len", "seq-length", 0);
  if (batch.seq_len == 0) {
    batch.seq_len = setting("seq_len", "encoder-seq-length", 0);
  }
  if (batch.seq_len == 0) {
    batch.seq_len = options_.seq_len > 0 ? options_.seq_len : 4096;
    assume(fmt::format("--seq-length is absent: {} is assumed", batch.seq_len));
  }
  if (const FlagUse* ramp = flags_.find("rampup-batch-size"); ramp != nullptr) {
    assume("the batch grows in steps (--rampup-batch-size): the full batch is judged",
           "rampup-batch-size");
  }
}

void MegatronReader::read_precision() {
  TrainJob& job = out_.job;
  job.dtype = flags_.has("bf16") ? DType::kBF16 : flags_.has("fp16") ? DType::kF16 : DType::kF32;
  mark("dtype", flags_.has("bf16") ? "bf16" : "fp16");
  if (launch_.kind == ProgramKind::kSwift && !any({"bf16", "fp16"})) {
    job.dtype = DType::kBF16;
  }
  if (any({"fp8-format", "fp8"})) {
    assume("products in fp8: weights, gradients and optimizer are counted as in bf16",
           flags_.has("fp8-format") ? "fp8-format" : "fp8");
  }
  if (flags_.has("grad-reduce-in-bf16")) {
    job.grad_bytes = 2;
  } else if (flags_.has("accumulate-allreduce-grads-in-fp32")) {
    job.grad_bytes = 4;
  }
  const double attention = flags_.number("attention-dropout").value_or(0.1);
  const double hidden = flags_.number("hidden-dropout").value_or(0.1);
  job.dropout = std::clamp(std::max(attention, hidden), 0.0, 1.0);
}

void MegatronReader::read_recompute() {
  TrainJob& job = out_.job;
  const std::string granularity = flags_.text("recompute-granularity").value_or("");
  if (granularity == "full") {
    job.layout.recompute = Recompute::kFull;
  } else if (granularity == "selective" || flags_.has("recompute-activations")) {
    job.layout.recompute = Recompute::kSelective;
  } else if (!granularity.empty()) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: --recompute-granularity is {}, but must be full or selective",
                flags_.where("recompute-granularity").text(), granularity.substr(0, 40));
  }
  mark("recompute",
       flags_.has("recompute-granularity") ? "recompute-granularity" : "recompute-activations");
  if (flags_.text("recompute-method").value_or("") == "block" &&
      job.layout.recompute == Recompute::kFull) {
    job.recompute_layers = setting("recompute_layers", "recompute-num-layers", 1, 0);
    job.recompute_per_stage = flags_.has("enable-recompute-layers-per-pp-rank");
  }
  if (flags_.has("recompute-activation-function")) {
    job.recompute_activation_layers =
        flags_.integer("recompute-activation-function-num-layers", 0).value_or(-1);
  }
  job.swap_attention = flags_.has("swap-attention");
  job.pp_before_dp = flags_.has("use-tp-pp-dp-mapping");
}

void MegatronReader::read_memory() {
  TrainJob& job = out_.job;
  const std::string backend = flags_.text("attention-backend").value_or("");
  const std::string implementation = flags_.text("transformer-impl").value_or("");
  job.flash_attention =
      flags_.has("use-flash-attn") || backend == "flash" || backend == "fused" || backend == "auto";
  if (!job.flash_attention && job.stack == Stack::kMegatron && backend.empty() &&
      implementation != "local") {
    job.flash_attention = true;
    assume("fused attention of Transformer Engine is assumed (--transformer-impl is not local)");
  }
  job.overlap_grad_reduce = flags_.has("overlap-grad-reduce");
  job.overlap_param_gather = flags_.has("overlap-param-gather");
  job.overlap_tp_comm =
      any({"tp-comm-overlap", "use-mc2", "use-ascend-mc2", "use-ascend-coc", "coc-fused-kernel"});
  job.reuse_fp32_param = flags_.has("reuse-fp32-param");
  job.offload_optimizer = any({"optimizer-cpu-offload", "swap-optimizer", "cpu-optimizer"});
  const auto buffer = launch_.environment.find("HCCL_BUFFSIZE");
  if (buffer != launch_.environment.end() && buffer->second.known()) {
    const int64_t megabytes = parse_integer(buffer->second.text).value_or(0);
    job.comm_buffer_bytes = std::clamp<int64_t>(megabytes, 0, 1 << 20) << 20;
  }
  assume_less_memory({"recompute-norm", "smart-swap", "moe-zero-memory", "recompute-mla-up-proj",
                      "mla-zero-memory", "cpu-offloading", "fine-grained-activation-offloading",
                      "adaptive-memory-optimization"},
                     "what --{} saves is not subtracted from the estimate");
  assume_less_memory({"variable-seq-lengths", "no-pad-to-seq-lengths"},
                     "rows have the length of their samples (--{}): memory is that of rows of "
                     "--seq-length");
  assume_less_memory(
      {"o2-optimizer", "o2-gradient", "quant-states", "quant-grads", "main-params-dtype"},
      "the optimizer of lower precision (--{}) is counted as the standard one");
}

void MegatronReader::read_lora() {
  LoraConfig& lora = out_.job.lora;
  lora.rank = setting("lora_rank", "lora-r", 0, 0);
  if (const FlagUse* use = flags_.find("lora-target-modules")) {
    lora.qkv = lora.o = lora.mlp = false;
    for (const ShellWord& word : use->values) {
      const std::string& name = word.text;
      const bool all = name == "all-linear" || name == "all_linear";
      lora.qkv = lora.qkv || all || name.find("qkv") != std::string::npos ||
                 name == "query_key_value" || name == "q_proj";
      lora.o = lora.o || all || name == "linear_proj" || name == "dense" || name == "o_proj";
      lora.mlp = lora.mlp || all || name.find("fc") != std::string::npos ||
                 name.find("h_to") != std::string::npos ||
                 name.find("up_proj") != std::string::npos;
    }
  }
  if (flags_.has("qlora")) {
    assume("the frozen weights are counted in 16 bits, though --qlora keeps them in 4", "qlora");
  }
}

// Arguments of a program that is not Megatron's would be read as a job of its defaults.
void MegatronReader::refuse_other_programs() const {
  static constexpr const char* kOfMegatron[] = {"num-layers",
                                                "hidden-size",
                                                "num-attention-heads",
                                                "seq-length",
                                                "micro-batch-size",
                                                "global-batch-size",
                                                "tensor-model-parallel-size",
                                                "pipeline-model-parallel-size",
                                                "load",
                                                "model",
                                                "model-type-hf",
                                                "tokenizer-name-or-path"};
  const auto found = std::count_if(std::begin(kOfMegatron), std::end(kOfMegatron),
                                   [&](const char* flag) { return flags_.has(flag); });
  if (launch_.kind == ProgramKind::kPython && found < 2) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}:{}: '{}' is no program whose arguments are known here (scripts of Megatron-LM, "
                "MindSpeed-LLM, Megatron-DeepSpeed, programs of HF's Trainer with --deepspeed, "
                "ms-swift's megatron, vllm, run_mindformer.py); give the job as plain flags: plait "
                "plan check -- --num-layers ...",
                out_.origin, launch_.line, launch_.program);
  }
}

ReadJob MegatronReader::read() {
  refuse_other_programs();
  read_stack();
  read_degrees();
  read_world();
  read_batch();
  read_precision();
  read_recompute();
  read_model();
  read_memory();
  read_lora();
  read_stages();
  check_flags();
  for (const UnknownFlag& flag : flags_.unknown()) {
    out_.unknown_flags.push_back(flag);
  }
  for (const Note& note : flags_.notes()) {
    out_.assumptions.push_back(note);
  }
  for (const Note& note : launch_.notes) {
    out_.assumptions.push_back(note);
  }
  out_.environment = launch_.environment;
  return std::move(out_);
}

ReadJob read_megatron(const Launch& launch, const std::string& origin, const ReadOptions& options) {
  return MegatronReader(launch, origin, options).read();
}

}  // namespace plait
