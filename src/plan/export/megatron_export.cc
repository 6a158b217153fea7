// Launch scripts of Megatron-LM and MindSpeed-LLM.
#include <fmt/format.h>

#include "plan/export/exporters.h"
#include "plan/export/megatron_flags_table.h"
#include "plan/export/script.h"

namespace plait {
namespace {

// What neither can do.
void refuse_layout(const TrainJob& job, Refusals& no) {
  const Layout& layout = job.layout;
  no.when(layout.schedule == ScheduleKind::kGpipe,
          {"schedule = gpipe", "it runs 1F1B, or interleaved with virtual stages"});
  no.when(layout.schedule == ScheduleKind::kInterleaved && layout.vpp == 1,
          {"schedule = interleaved with vpp = 1", "interleaving needs virtual stages"});
  no.when(job.model.moe.num_experts > 0 && layout.tp > 1 && !layout.sp,
          {fmt::format("tp = {} without sp", layout.tp),
           "training experts with tensor parallelism needs sequence parallelism"});
  no.when(job.dtype != DType::kBF16 && job.dtype != DType::kF16 && job.dtype != DType::kF32,
          {fmt::format("dtype = {}", dtype_name(job.dtype)), "it trains in bf16, fp16 and fp32"});
  no.when(job.grad_bytes != 0 && job.grad_bytes != 2 && job.grad_bytes != 4,
          {fmt::format("grad_bytes = {}", job.grad_bytes), "gradients take 2 or 4 bytes"});
  no.when(job.grad_bytes == 4 && job.dtype == DType::kF16,
          {"grad_bytes = 4 with fp16", "gradients in fp32 need bf16"});
  no.when(job.overlap_param_gather && (layout.zero == 0 || !job.overlap_grad_reduce),
          {"overlap_param_gather", "needs zero = 1 and overlap_grad_reduce"});
  no.when(job.overlap_tp_comm && !(layout.sp && layout.tp > 1),
          {"overlap_tp_comm", "needs tp > 1 and sp"});
  no.when(job.offload_optimizer && layout.zero != 1,
          {fmt::format("offload_optimizer with zero = {}", layout.zero),
           "offloading needs the distributed optimizer (zero = 1)"});
}

void refuse_model(const TrainJob& job, Refusals& no) {
  const ModelConfig& model = job.model;
  const bool biases = model.o_bias && model.mlp_bias && model.qkv_bias;
  no.when(!biases && (model.o_bias || model.mlp_bias),
          {fmt::format("biases on {}{}{}", model.qkv_bias ? "qkv " : "", model.o_bias ? "o " : "",
                       model.mlp_bias ? "mlp" : ""),
           "its flags give biases to all projections, to qkv alone, or to none"});
  const bool scaled = model.rope.type != RopeType::kDefault && model.rope.type != RopeType::kLlama3;
  no.when(scaled && model.position == PositionType::kRope && model.mla.kv_lora_rank == 0 &&
              model.rope.type != RopeType::kYarn,
          {fmt::format("rope type {}", rope_type_name(model.rope.type)),
           "its parameters are not part of a plan"});
}

void refuse_for_megatron(const TrainJob& job, Refusals& no) {
  const RopeConfig& rope = job.model.rope;
  no.when(job.lora.rank > 0, {fmt::format("lora rank = {}", job.lora.rank),
                              "Megatron-LM has no adapters; export to mindspeed"});
  no.when(job.reuse_fp32_param, {"reuse_fp32_param", "only MindSpeed has it"});
  no.when(job.swap_attention, {"swap_attention", "only MindSpeed has it"});
  no.when(job.recompute_activation_layers != 0,
          {"recompute_activation_layers", "only MindSpeed has it"});
  no.when(job.recompute_per_stage,
          {"recompute_layers counted per stage", "Megatron-LM counts them per virtual stage"});
  no.when(job.comm_buffer_bytes > 0,
          {"comm_buffer_bytes", "NCCL sizes its buffers by channel, not by communicator"});
  no.when(job.model.position == PositionType::kAlibi,
          {"ALiBi positions", "only MindSpeed-LLM has them"});
  no.when(job.model.embedding_norm, {"a norm after the embedding", "only MindSpeed-LLM has it"});
  no.when(
      rope.type == RopeType::kLlama3 && (rope.low_freq_factor != 1 || rope.high_freq_factor != 4 ||
                                         rope.original_max_position_embeddings != 8192),
      {"llama3 rope with frequency factors of its own", "Megatron-LM has 1, 4 and 8192 built in"});
  no.when(job.layout.zero >= 2 && !job.layout.stage_layers.empty(),
          {fmt::format("zero = {} with stage_layers", job.layout.zero),
           "Megatron-FSDP splits stages evenly"});
}

void refuse_for_mindspeed(const TrainJob& job, Refusals& no) {
  no.when(job.layout.zero >= 2,
          {fmt::format("zero = {}", job.layout.zero),
           "its --layerzero and FSDP2 take a file of their own; use zero = 1"});
  no.when(job.comm_buffer_bytes % (int64_t{1} << 20) != 0,
          {fmt::format("comm_buffer_bytes = {}", job.comm_buffer_bytes),
           "HCCL_BUFFSIZE counts whole MiB"});
  no.when(job.offload_optimizer && job.reuse_fp32_param,
          {"offload_optimizer with reuse_fp32_param", "--swap-optimizer excludes it"});
  no.when(job.recompute_per_stage && job.recompute_layers < 0,
          {"recompute_per_stage without recompute_layers", "it needs a number of layers"});
  no.when(job.lora.rank > 0 && !(job.lora.qkv || job.lora.o || job.lora.mlp),
          {"lora on no projection", "at least one must carry adapters"});
  no.when(job.overlap_tp_comm && job.model.moe.num_experts > 0,
          {"overlap_tp_comm", "MC2 does not work with experts"});
}

bool needs_rope_arguments(const ExportRequest& request) {
  const ModelConfig& model = request.job.model;
  const bool scaled = model.rope.type != RopeType::kDefault && model.rope.type != RopeType::kLlama3;
  return model.position == PositionType::kRope && (request.sizes_only || scaled);
}

class MegatronScript {
 public:
  MegatronScript(const ExportRequest& request, Launcher launcher)
      : request_(request),
        job_(request.job),
        machines_(machines_of(request)),
        launcher_(launcher),
        mindspeed_(request.job.stack == Stack::kMindSpeed) {}

  std::string text() const;

 private:
  std::string usage() const;
  std::vector<ScriptVariable> variables() const;
  std::string environment() const;
  std::string distributed() const;
  std::string data() const;
  std::string lora() const;
  std::string command() const;
  std::vector<ScriptFlag> model_flags() const;

  const ExportRequest& request_;
  const TrainJob& job_;
  Machines machines_;
  Launcher launcher_;
  bool mindspeed_;
};

std::string MegatronScript::usage() const {
  if (launcher_ == Launcher::kSrun) {
    return "Submit it with sbatch from a directory that all nodes see.\n";
  }
  if (machines_.servers == 1) {
    return "Start it on the server.\n";
  }
  return fmt::format(
      "Start it on each of the {} servers, with NODE_RANK=0 to {} and MASTER_ADDR set to the\n"
      "address of the server with NODE_RANK=0.\n",
      machines_.servers, machines_.servers - 1);
}

std::vector<ScriptVariable> MegatronScript::variables() const {
  std::vector<ScriptVariable> list;
  list.push_back(mindspeed_ ? ScriptVariable{"MINDSPEED_LLM_PATH", "a MindSpeed-LLM checkout", ""}
                            : ScriptVariable{"MEGATRON_PATH", "a Megatron-LM checkout", ""});
  list.push_back({"DATA_PATH", "absolute prefix of the .bin and .idx token files", ""});
  list.push_back({"TOKENIZER_PATH", "absolute path of the HF tokenizer directory", ""});
  if (job_.lora.rank > 0) {
    list.push_back({"LOAD_DIR", "absolute directory of the base model's checkpoint", ""});
    list.push_back({"PROMPT_TYPE", "MindSpeed-LLM's template for the model, such as qwen3", ""});
  }
  if (needs_rope_arguments(request_)) {
    list.push_back({"ROPE_ARGS",
                    request_.sizes_only
                        ? "rotary flags for the model's config.json, such as --rotary-base 1000000"
                        : fmt::format("flags for the {} scaling in the model's config.json",
                                      rope_type_name(job_.model.rope.type)),
                    ""});
  }
  if (request_.sizes_only) {
    list.push_back({"NORM_EPSILON", "rms_norm_eps of the model's config.json, such as 1e-6", ""});
  }
  if (launcher_ == Launcher::kTorchrun && machines_.servers > 1) {
    list.push_back(
        {"NODE_RANK", fmt::format("number of this server, 0 to {}", machines_.servers - 1), ""});
    list.push_back({"MASTER_ADDR", "address of the server with NODE_RANK=0", ""});
  }
  if (launcher_ == Launcher::kTorchrun) {
    list.push_back({"MASTER_PORT", "a free port there", "29500"});
  }
  list.push_back({"SAVE_DIR", "directory for checkpoints", "$PWD/checkpoints"});
  if (job_.lora.rank == 0) {
    list.push_back({"LOAD_DIR", "checkpoint to start from", "none"});
  }
  list.push_back({"TRAIN_ITERS", "steps", "2000"});
  list.push_back({"LR", "learning rate after warm-up", "1.5e-4"});
  list.push_back({"MIN_LR", "learning rate at the end", "1.5e-5"});
  if (mindspeed_) {
    list.push_back(
        {"ASCEND_ENV", "CANN's environment script", "/usr/local/Ascend/ascend-toolkit/set_env.sh"});
  }
  return list;
}

std::string MegatronScript::environment() const {
  std::string text = "\n";
  if (mindspeed_) {
    // CANN's script reads variables that may not be set.
    text += "set +u\nsource \"$ASCEND_ENV\"\nset -u\n";
  }
  if (job_.layout.zero < 2) {
    text += "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  }
  if (!mindspeed_) {
    return text;
  }
  text += "export HCCL_CONNECT_TIMEOUT=1200\n";
  if (job_.comm_buffer_bytes > 0) {
    text += fmt::format("export HCCL_BUFFSIZE={}\n", job_.comm_buffer_bytes >> 20);
  }
  return text +
         "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True\n"
         "export TASK_QUEUE_ENABLE=2\n";
}

std::string MegatronScript::distributed() const {
  std::vector<ScriptFlag> flags = {{"--nnodes", std::to_string(machines_.servers)},
                                   {"--nproc_per_node", std::to_string(machines_.per_server)}};
  std::string text;
  if (launcher_ == Launcher::kSrun) {
    text =
        "\nMASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
        "MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))\n";
    flags.push_back({"--rdzv_backend", "c10d"});
    flags.push_back({"--rdzv_id", "\"$SLURM_JOB_ID\""});
    flags.push_back({"--rdzv_endpoint", "\"$MASTER_ADDR:$MASTER_PORT\""});
  } else {
    const bool alone = machines_.servers == 1;
    flags.push_back({"--node_rank", alone ? "0" : "\"$NODE_RANK\""});
    flags.push_back({"--master_addr", alone ? "127.0.0.1" : "\"$MASTER_ADDR\""});
    flags.push_back({"--master_port", "\"$MASTER_PORT\""});
  }
  return text + "\n" + script_array("DISTRIBUTED_ARGS", flags);
}

std::string MegatronScript::data() const {
  std::vector<ScriptFlag> flags = {{"--data-path", "\"$DATA_PATH\""}, {"--split", "98,2,0"}};
  if (mindspeed_) {
    flags.push_back({"--tokenizer-type", "PretrainedFromHF"});
    flags.push_back({"--tokenizer-name-or-path", "\"$TOKENIZER_PATH\""});
  } else {
    flags.push_back({"--tokenizer-type", "HuggingFaceTokenizer"});
    flags.push_back({"--tokenizer-model", "\"$TOKENIZER_PATH\""});
  }
  flags.push_back({"--save", "\"$SAVE_DIR\""});
  flags.push_back({"--save-interval", "500"});
  flags.push_back({"--log-interval", "1"});
  flags.push_back({"--eval-interval", "500"});
  flags.push_back({"--eval-iters", "10"});
  std::string text = script_array("DATA_ARGS", flags);
  if (job_.lora.rank > 0) {
    return text + "DATA_ARGS+=(--load \"$LOAD_DIR\")\n";
  }
  return text + "if [ \"$LOAD_DIR\" != none ]; then\n  DATA_ARGS+=(--load \"$LOAD_DIR\")\nfi\n";
}

std::string MegatronScript::lora() const {
  if (job_.lora.rank == 0) {
    return "";
  }
  std::string targets = job_.lora.qkv ? "linear_qkv" : "";
  targets += job_.lora.o ? " linear_proj" : "";
  targets += job_.lora.mlp ? " linear_fc1 linear_fc2" : "";
  return script_array("TUNE_ARGS",
                      {{"--finetune", ""},
                       {"--stage", "sft"},
                       {"--is-instruction-dataset", ""},
                       {"--prompt-type", "\"$PROMPT_TYPE\""},
                       {"--lora-r", std::to_string(job_.lora.rank)},
                       {"--lora-alpha", std::to_string(2 * job_.lora.rank)},
                       {"--lora-target-modules", targets.substr(targets[0] == ' ' ? 1 : 0)}});
}

std::string MegatronScript::command() const {
  std::string text =
      fmt::format("\ncd \"${}\"\n", mindspeed_ ? "MINDSPEED_LLM_PATH" : "MEGATRON_PATH");
  if (launcher_ == Launcher::kSrun) {
    text +=
        fmt::format("srun --nodes={} --ntasks-per-node=1 --kill-on-bad-exit=1 ", machines_.servers);
  }
  text += fmt::format("torchrun \"${{DISTRIBUTED_ARGS[@]}}\" {} \\\n",
                      job_.lora.rank > 0 ? "posttrain_gpt.py" : "pretrain_gpt.py");
  text += "  \"${MODEL_ARGS[@]}\" \"${PARALLEL_ARGS[@]}\" \"${MEMORY_ARGS[@]}\" \\\n  ";
  if (needs_rope_arguments(request_)) {
    text += "$ROPE_ARGS ";
  }
  return text + (job_.lora.rank > 0 ? "\"${TUNE_ARGS[@]}\" " : "") +
         "\"${TRAIN_ARGS[@]}\" \"${DATA_ARGS[@]}\"\n";
}

std::vector<ScriptFlag> MegatronScript::model_flags() const {
  std::vector<ScriptFlag> flags = megatron_job_flags(job_, FlagGroup::kModel);
  if (request_.sizes_only) {
    std::erase_if(flags, [](const ScriptFlag& flag) { return flag.name == "--rotary-base"; });
    for (ScriptFlag& flag : flags) {
      if (flag.name == "--norm-epsilon") {
        flag.value = "\"$NORM_EPSILON\"";
      }
    }
  }
  return flags;
}

std::string MegatronScript::text() const {
  std::vector<ScriptFlag> train = megatron_job_flags(job_, FlagGroup::kBatch);
  for (const ScriptFlag& flag : std::vector<ScriptFlag>{{"--train-iters", "\"$TRAIN_ITERS\""},
                                                        {"--lr", "\"$LR\""},
                                                        {"--min-lr", "\"$MIN_LR\""},
                                                        {"--lr-decay-style", "cosine"},
                                                        {"--lr-warmup-fraction", "0.01"},
                                                        {"--weight-decay", "0.1"},
                                                        {"--clip-grad", "1.0"},
                                                        {"--adam-beta1", "0.9"},
                                                        {"--adam-beta2", "0.95"}}) {
    train.push_back(flag);
  }
  const bool batch_job = launcher_ == Launcher::kSrun;
  return script_head({.headline = headline(request_),
                      .kind = batch_job    ? "slurm"
                              : mindspeed_ ? "mindspeed"
                                           : "megatron",
                      .directives = batch_job ? slurm_header(request_, {}) : "",
                      .usage = usage()}) +
         script_variables(variables()) + environment() + distributed() +
         script_array("MODEL_ARGS", model_flags()) +
         script_array("PARALLEL_ARGS", megatron_job_flags(job_, FlagGroup::kParallel)) +
         script_array("MEMORY_ARGS", megatron_job_flags(job_, FlagGroup::kMemory)) +
         script_array("TRAIN_ARGS", train) + data() + lora() + command();
}

}  // namespace

std::vector<ExportedFile> export_megatron(const ExportRequest& request, Launcher launcher) {
  const bool mindspeed = request.job.stack == Stack::kMindSpeed;
  Refusals no(mindspeed ? "MindSpeed-LLM" : "Megatron-LM");
  refuse_layout(request.job, no);
  refuse_model(request.job, no);
  if (mindspeed) {
    refuse_for_mindspeed(request.job, no);
  } else {
    refuse_for_megatron(request.job, no);
  }
  no.check();
  const char* suffix = launcher == Launcher::kSrun ? "sbatch" : "sh";
  return {
      {fmt::format("{}.{}", request.name, suffix), MegatronScript(request, launcher).text(), true}};
}

}  // namespace plait
