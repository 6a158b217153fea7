// DeepSpeed configuration and the command that uses it with a program that takes HF
// TrainingArguments (run_clm.py of transformers, LlamaFactory, ...).
#include <fmt/format.h>

#include "base/json_full.h"
#include "plan/export/exporters.h"
#include "plan/export/script.h"

namespace plait {
namespace {

void refuse_for_deepspeed(const TrainJob& job, Refusals& no) {
  const Layout& l = job.layout;
  no.when(l.pp > 1, {fmt::format("pp = {}", l.pp),
                     "pipeline stages are a PipelineModule in the program, not configuration"});
  no.when(l.cp > 1,
          {fmt::format("cp = {}", l.cp),
           "sequence parallelism is DistributedAttention in the program, not configuration"});
  no.when(l.ep > 1, {fmt::format("ep = {}", l.ep),
                     "expert parallelism is deepspeed.moe in the program, not configuration"});
  no.when(job.etp > 1, {fmt::format("etp = {}", job.etp), "experts are not configuration"});
  no.when(l.sp, {"sp", "Megatron-LM's sequence parallelism does not exist in DeepSpeed"});
  no.when(l.tp > 1 && l.zero >= 3, {fmt::format("tp = {} with zero = {}", l.tp, l.zero),
                                    "automatic tensor parallelism works up to ZeRO-2"});
  no.when(job.recompute_layers >= 0 && l.recompute == Recompute::kFull,
          {fmt::format("recompute_layers = {}", job.recompute_layers),
           "gradient checkpointing covers all layers or none"});
  no.when(l.recompute == Recompute::kSelective,
          {"recompute = selective", "gradient checkpointing covers whole layers"});
  no.when(job.recompute_activation_layers != 0, {"recompute_activation_layers", "MindSpeed's"});
  no.when(job.swap_attention, {"swap_attention", "MindSpeed's"});
  no.when(job.reuse_fp32_param, {"reuse_fp32_param", "MindSpeed's"});
  no.when(job.overlap_tp_comm,
          {"overlap_tp_comm", "DeepSpeed does not fuse products and collectives"});
  no.when(job.lora.rank > 0, {fmt::format("lora rank = {}", job.lora.rank),
                              "adapters are part of the program, not configuration"});
  no.when(job.offload_optimizer && l.zero == 0, {"offload_optimizer", "needs zero = 1 or more"});
  no.when(job.grad_bytes != 0 && job.grad_bytes != 2 && job.grad_bytes != 4,
          {fmt::format("grad_bytes = {}", job.grad_bytes), "gradients take 2 or 4 bytes"});
  no.when(job.comm_buffer_bytes != 0 && job.comm_buffer_bytes % (int64_t{1} << 20) != 0,
          {"comm_buffer_bytes", "HCCL_BUFFSIZE counts whole MiB"});
  no.when(job.dtype != DType::kBF16 && job.dtype != DType::kF16 && job.dtype != DType::kF32,
          {fmt::format("dtype = {}", dtype_name(job.dtype)), "it trains in bf16, fp16 and fp32"});
}

int64_t accumulation_steps(const TrainJob& job) {
  return job.batch.global_batch_size / (job.batch.micro_batch_size * job.layout.dp);
}

Json configuration(const TrainJob& job) {
  const Layout& l = job.layout;
  Json zero = {{"stage", l.zero}};
  if (l.zero >= 1) {
    zero["overlap_comm"] = job.overlap_grad_reduce;
    zero["contiguous_gradients"] = true;
    zero["reduce_bucket_size"] = 500000000;
    zero["allgather_bucket_size"] = 500000000;
  }
  if (l.zero >= 3) {
    zero["stage3_gather_16bit_weights_on_model_save"] = true;
    // Without it, each layer's gather waits for the one before.
    zero["stage3_prefetch_bucket_size"] = job.overlap_param_gather ? 50000000 : 0;
  }
  if (job.offload_optimizer) {
    zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  }
  Json config = {{"train_batch_size", job.batch.global_batch_size},
                 {"train_micro_batch_size_per_gpu", job.batch.micro_batch_size},
                 {"gradient_accumulation_steps", accumulation_steps(job)},
                 {"zero_optimization", std::move(zero)},
                 {"bf16", {{"enabled", job.dtype == DType::kBF16}}},
                 {"fp16", {{"enabled", job.dtype == DType::kF16}}},
                 {"gradient_clipping", 1.0},
                 {"steps_per_print", 10},
                 {"wall_clock_breakdown", false}};
  if (job.grad_bytes != 0) {
    const bool wide = job.grad_bytes == 4;
    config["data_types"] = {{"grad_accum_dtype", wide                       ? "fp32"
                                                 : job.dtype == DType::kF16 ? "fp16"
                                                                            : "bf16"}};
  }
  if (l.tp > 1) {
    config["tensor_parallel"] = {{"autotp_size", l.tp}};
  }
  return config;
}

std::string distributed(const Machines& machines) {
  const bool alone = machines.servers == 1;
  return script_array("DISTRIBUTED_ARGS",
                      {{"--nnodes", std::to_string(machines.servers)},
                       {"--nproc_per_node", std::to_string(machines.per_server)},
                       {"--node_rank", alone ? "0" : "\"$NODE_RANK\""},
                       {"--master_addr", alone ? "127.0.0.1" : "\"$MASTER_ADDR\""},
                       {"--master_port", "\"$MASTER_PORT\""}});
}

std::string deepspeed_launch(const ExportRequest& request) {
  const TrainJob& job = request.job;
  const Machines machines = machines_of(request);
  const bool ascend = vendor_of(request.cluster.chip) == ChipVendor::kAscend;
  std::vector<ScriptVariable> variables = {
      {"TRAIN_SCRIPT",
       "program that takes HF TrainingArguments, such as run_clm.py of transformers", ""},
      {"MODEL_PATH", "HF model directory (config.json and tokenizer)", ""},
      {"DATA_PATH", "training text that the program reads (--train_file)", ""}};
  if (machines.servers > 1) {
    variables.push_back(
        {"NODE_RANK", fmt::format("number of this server, 0 to {}", machines.servers - 1), ""});
    variables.push_back({"MASTER_ADDR", "address of the server with NODE_RANK=0", ""});
  }
  variables.push_back({"MASTER_PORT", "a free port there", "29500"});
  variables.push_back({"SAVE_DIR", "directory for checkpoints", "$PWD/checkpoints"});
  variables.push_back({"TRAIN_ITERS", "steps", "2000"});
  variables.push_back({"LR", "learning rate after warm-up", "1.5e-4"});
  std::string text = script_head(
      {.headline = headline(request), .kind = "deepspeed", .directives = "", .usage = ""});
  text += script_variables(variables) + "\n";
  if (ascend) {
    text += "export HCCL_CONNECT_TIMEOUT=1200\n";
    text += job.comm_buffer_bytes > 0
                ? fmt::format("export HCCL_BUFFSIZE={}\n", job.comm_buffer_bytes >> 20)
                : "";
    text += "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True\n";
  }
  text += distributed(machines);
  std::vector<ScriptFlag> flags = {
      {"--deepspeed", "\"$here/ds_config.json\""},
      {"--model_name_or_path", "\"$MODEL_PATH\""},
      {"--train_file", "\"$DATA_PATH\""},
      {"--do_train", ""},
      {"--block_size", std::to_string(job.batch.seq_len)},
      {"--per_device_train_batch_size", std::to_string(job.batch.micro_batch_size)},
      {"--gradient_accumulation_steps", std::to_string(accumulation_steps(job))},
      {"--max_steps", "\"$TRAIN_ITERS\""},
      {"--learning_rate", "\"$LR\""},
      {"--lr_scheduler_type", "cosine"},
      {"--warmup_ratio", "0.01"},
      {"--weight_decay", "0.1"},
      {"--max_grad_norm", "1.0"},
      {"--logging_steps", "10"},
      {"--output_dir", "\"$SAVE_DIR\""}};
  if (job.dtype != DType::kF32) {
    flags.push_back({job.dtype == DType::kBF16 ? "--bf16" : "--fp16", ""});
  }
  if (job.layout.recompute == Recompute::kFull) {
    flags.push_back({"--gradient_checkpointing", ""});
  }
  return text + "here=$(dirname \"$0\")\n" + script_array("TRAIN_ARGS", flags) +
         "torchrun \"${DISTRIBUTED_ARGS[@]}\" \"$TRAIN_SCRIPT\" \"${TRAIN_ARGS[@]}\"\n";
}

}  // namespace

std::vector<ExportedFile> export_deepspeed(const ExportRequest& request) {
  Refusals no("DeepSpeed");
  refuse_for_deepspeed(request.job, no);
  no.check();
  return {{request.name + ".sh", deepspeed_launch(request), true},
          {"ds_config.json", dump_json(configuration(request.job), 2) + "\n", false}};
}

}  // namespace plait
