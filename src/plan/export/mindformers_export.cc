// MindFormers: the YAML of a Llama-shaped model and its launch script.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "plan/export/exporters.h"
#include "plan/export/script.h"
#include "plan/export/yaml_text.h"

namespace plait {
namespace {

void refuse_mindformers_model(const ModelConfig& m, Refusals& no) {
  no.when(m.moe.num_experts > 0,
          {fmt::format("{} experts", m.moe.num_experts), "its LlamaConfig is dense"});
  no.when(m.mla.kv_lora_rank > 0,
          {"latent attention", "its LlamaConfig has grouped-query attention"});
  no.when(m.qk_norm, {"a norm on q and k (Qwen3)", "its LlamaConfig has none"});
  no.when(m.norm != NormType::kRms, {"LayerNorm", "its LlamaConfig has RMSNorm"});
  no.when(m.position != PositionType::kRope,
          {"positions other than RoPE", "its LlamaConfig has RoPE"});
  no.when(!m.gated_mlp, {"an MLP without gate", "its LlamaConfig has SwiGLU"});
  no.when(m.embedding_norm, {"a norm after the embedding", "its LlamaConfig has none"});
  no.when(m.o_bias || m.mlp_bias,
          {"biases outside of qkv", "its LlamaConfig has qkv_has_bias only"});
  no.when(m.rope.type != RopeType::kDefault && m.rope.type != RopeType::kLlama3,
          {fmt::format("rope type {}", rope_type_name(m.rope.type)),
           "its parameters are not part of a plan"});
  no.when(m.head_dim * m.num_heads != m.hidden_size,
          {fmt::format("head_dim = {}", m.head_dim), "its heads share the hidden size"});
}

void refuse_for_mindformers(const TrainJob& job, Refusals& no) {
  const Layout& l = job.layout;
  no.when(l.schedule == ScheduleKind::kGpipe && l.pp > 1,
          {"schedule = gpipe", "it runs 1F1B, or interleaved with pp_interleave_num"});
  no.when(l.ep > 1, {fmt::format("ep = {}", l.ep), "its LlamaConfig is dense"});
  no.when(job.etp > 0, {fmt::format("etp = {}", job.etp), "its LlamaConfig is dense"});
  no.when(job.lora.rank > 0, {fmt::format("lora rank = {}", job.lora.rank),
                              "its pet_config names modules of one model version"});
  no.when(job.dropout > 0, {fmt::format("dropout = {}", job.dropout), "its LlamaConfig has none"});
  no.when(job.recompute_activation_layers != 0, {"recompute_activation_layers", "MindSpeed's"});
  no.when(job.swap_attention, {"swap_attention", "MindSpeed's"});
  no.when(job.recompute_per_stage && l.vpp > 1,
          {"recompute_layers counted per stage", "its lists count layers of a virtual stage"});
  no.when(job.reuse_fp32_param, {"reuse_fp32_param", "MindSpeed's"});
  no.when(job.offload_optimizer, {"offload_optimizer", "its optimizer stays on the device"});
  no.when(job.overlap_tp_comm, {"overlap_tp_comm", "the graph compiler decides about it"});
  no.when(job.overlap_param_gather,
          {"overlap_param_gather", "the graph compiler decides about it"});
  no.when(job.grad_bytes != 0, {"grad_bytes", "gradients follow compute_dtype"});
  no.when(job.comm_buffer_bytes % (int64_t{1} << 20) != 0,
          {"comm_buffer_bytes", "HCCL_BUFFSIZE counts whole MiB"});
  no.when(job.dtype != DType::kBF16 && job.dtype != DType::kF16 && job.dtype != DType::kF32,
          {fmt::format("dtype = {}", dtype_name(job.dtype)), "it trains in bf16, fp16 and fp32"});
  refuse_mindformers_model(job.model, no);
}

int64_t micro_batches(const TrainJob& job) {
  return job.batch.global_batch_size / (job.batch.micro_batch_size * job.layout.dp);
}

YAML::Node number_list(const std::vector<int64_t>& values) {
  YAML::Node list(YAML::NodeType::Sequence);
  for (const int64_t value : values) {
    list.push_back(value);
  }
  return yaml_flow(list);
}

// One number a virtual stage, as a list of stages, or a list of such lists with virtual stages.
YAML::Node per_virtual_stage(const Layout& layout, const std::vector<int64_t>& values) {
  if (layout.vpp == 1) {
    return number_list(values);
  }
  YAML::Node chunks(YAML::NodeType::Sequence);
  for (int chunk = 0; chunk < layout.vpp; ++chunk) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(chunk) * layout.pp;
    chunks.push_back(number_list({begin, begin + layout.pp}));
  }
  return yaml_flow(chunks);
}

// Layers of each virtual stage beyond the even split.
YAML::Node offset(const TrainJob& job) {
  if (job.layout.stage_layers.empty()) {
    return YAML::Node(0);
  }
  std::vector<int64_t> offsets = job.layout.stage_layers;
  for (int64_t& value : offsets) {
    value -= job.model.num_layers / job.layout.num_virtual_stages();
  }
  return per_virtual_stage(job.layout, offsets);
}

YAML::Node recompute(const TrainJob& job) {
  YAML::Node node;
  const bool full = job.layout.recompute == Recompute::kFull;
  if (full && job.recompute_layers >= 0) {
    const std::vector<int64_t> counts(static_cast<size_t>(job.layout.num_virtual_stages()),
                                      job.recompute_layers);
    node["recompute"] = per_virtual_stage(job.layout, counts);
  } else {
    node["recompute"] = full;
  }
  node["select_recompute"] = job.layout.recompute == Recompute::kSelective;
  node["parallel_optimizer_comm_recompute"] = false;
  node["mp_comm_recompute"] = true;
  node["recompute_slice_activation"] = job.layout.sp;
  return node;
}

const char* type_name(DType dtype) {
  return dtype == DType::kBF16 ? "bfloat16" : dtype == DType::kF16 ? "float16" : "float32";
}

YAML::Node model_config(const TrainJob& job) {
  const ModelConfig& m = job.model;
  YAML::Node c;
  c["type"] = "LlamaConfig";
  c["batch_size"] = 1;
  c["seq_length"] = job.batch.seq_len;
  c["hidden_size"] = m.hidden_size;
  c["num_layers"] = m.num_layers;
  c["num_heads"] = m.num_heads;
  c["n_kv_heads"] = m.num_kv_heads;
  c["max_position_embedding"] = m.max_position_embeddings;
  c["vocab_size"] = m.vocab_size;
  c["intermediate_size"] = m.ffn_hidden_size;
  c["qkv_has_bias"] = m.qkv_bias;
  c["rms_norm_eps"] = m.rms_norm_eps;
  c["theta"] = m.rope.theta;
  if (m.rope.type == RopeType::kLlama3) {
    c["extend_method"] = "LLAMA3";
    c["scaling_factor"]["factor"] = m.rope.factor;
    c["scaling_factor"]["low_freq_factor"] = m.rope.low_freq_factor;
    c["scaling_factor"]["high_freq_factor"] = m.rope.high_freq_factor;
    c["scaling_factor"]["original_max_position_embeddings"] =
        m.rope.original_max_position_embeddings;
  }
  c["tie_word_embeddings"] = m.tie_word_embeddings;
  c["bos_token_id"] = m.bos_token_id < 0 ? 1 : m.bos_token_id;
  c["eos_token_id"] = m.eos_token_id < 0 ? 2 : m.eos_token_id;
  c["pad_token_id"] = -1;
  c["ignore_token_id"] = -100;
  c["compute_dtype"] = type_name(job.dtype);
  c["layernorm_compute_type"] = "float32";
  c["softmax_compute_type"] = "float32";
  c["rotary_dtype"] = "float32";
  c["param_init_type"] = job.params_16bit ? "float16" : "float32";
  c["use_flash_attention"] = job.flash_attention;
  if (job.layout.cp > 1 && job.cp_algorithm == CpAlgorithm::kRing) {
    c["use_ring_attention"] = true;
  }
  c["pp_interleave_num"] = job.layout.vpp;
  c["offset"] = offset(job);
  return c;
}

void add_parallel(const TrainJob& job, YAML::Node& root) {
  const Layout& l = job.layout;
  root["use_parallel"] = l.world_size() > 1;
  YAML::Node parallel = root["parallel"];
  parallel["parallel_mode"] = 1;  // semi-automatic: the model says how it is split
  parallel["gradients_mean"] = false;
  parallel["enable_alltoall"] = l.cp > 1;
  parallel["full_batch"] = true;
  parallel["search_mode"] = "sharding_propagation";
  parallel["enable_parallel_optimizer"] = l.zero >= 1;
  parallel["strategy_ckpt_save_file"] = "./ckpt_strategy.ckpt";
  if (l.zero >= 1) {
    parallel["parallel_optimizer_config"]["gradient_accumulation_shard"] = l.zero >= 2;
    parallel["parallel_optimizer_config"]["parallel_optimizer_threshold"] = 64;
    parallel["parallel_optimizer_config"]["optimizer_level"] = fmt::format("level{}", l.zero);
  }
  if (l.pp > 1) {
    parallel["pipeline_config"]["pipeline_interleave"] = l.vpp > 1;
    parallel["pipeline_config"]["pipeline_scheduler"] = "1f1b";
  }
  YAML::Node config = root["parallel_config"];
  config["data_parallel"] = l.dp;
  config["model_parallel"] = l.tp;
  config["context_parallel"] = l.cp;
  if (l.cp > 1) {
    config["context_parallel_algo"] =
        job.cp_algorithm == CpAlgorithm::kRing ? "colossalai_cp" : "ulysses_cp";
  }
  config["expert_parallel"] = 1;
  config["pipeline_stage"] = l.pp;
  config["use_seq_parallel"] = l.sp;
  config["micro_batch_num"] = l.pp > 1 ? micro_batches(job) : 1;
  config["vocab_emb_dp"] = l.tp == 1;
  config["gradient_aggregation_group"] = 4;
  root["micro_batch_interleave_num"] = 1;
}

void add_run(const ExportRequest& request, YAML::Node& root) {
  const TrainJob& job = request.job;
  root["seed"] = 42;
  root["output_dir"] = "./output";
  root["load_checkpoint"] = "";
  root["auto_trans_ckpt"] = false;
  root["only_save_strategy"] = false;
  root["resume_training"] = false;
  root["run_mode"] = "train";
  root["trainer"]["type"] = "CausalLanguageModelingTrainer";
  root["trainer"]["model_name"] = request.name;
  YAML::Node runner = root["runner_config"];
  runner["epochs"] = 1;
  runner["batch_size"] = job.batch.micro_batch_size;
  runner["sink_mode"] = true;
  runner["sink_size"] = 1;
  // A pipeline accumulates its micro-batches itself.
  runner["gradient_accumulation_steps"] = job.layout.pp > 1 ? int64_t{1} : micro_batches(job);
  root["runner_wrapper"]["type"] = "MFTrainOneStepCell";
  root["runner_wrapper"]["scale_sense"] = job.dtype == DType::kF16 ? 65536.0 : 1.0;
  root["runner_wrapper"]["use_clip_grad"] = true;
  YAML::Node optimizer = root["optimizer"];
  optimizer["type"] = "AdamW";
  optimizer["betas"] = yaml_flow(yaml_list({YAML::Node(0.9), YAML::Node(0.95)}));
  optimizer["eps"] = 1e-8;
  optimizer["weight_decay"] = 0.1;
  YAML::Node schedule = root["lr_schedule"];
  schedule["type"] = "CosineWithWarmUpLR";
  schedule["learning_rate"] = 1.5e-4;
  schedule["lr_end"] = 1.5e-5;
  schedule["warmup_ratio"] = 0.01;
  schedule["total_steps"] = -1;
}

YAML::Node dataset(const TrainJob& job) {
  YAML::Node d;
  d["data_loader"]["type"] = "MindDataset";
  d["data_loader"]["dataset_dir"] = "";  // --train_dataset_dir of the launch script
  d["data_loader"]["shuffle"] = true;
  d["input_columns"] = yaml_flow(yaml_list({YAML::Node("input_ids")}));
  d["num_parallel_workers"] = 8;
  d["python_multiprocessing"] = false;
  d["drop_remainder"] = true;
  d["batch_size"] = job.batch.micro_batch_size;
  d["repeat"] = 1;
  d["prefetch_size"] = 1;
  return d;
}

std::string yaml(const ExportRequest& request) {
  const TrainJob& job = request.job;
  YAML::Node root;
  add_run(request, root);
  root["train_dataset"] = dataset(job);
  root["train_dataset_task"]["type"] = "CausalLanguageModelDataset";
  root["train_dataset_task"]["dataset_config"] = dataset(job);
  add_parallel(job, root);
  root["recompute_config"] = recompute(job);
  YAML::Node loss, save;
  loss["type"] = "MFLossMonitor";
  save["type"] = "CheckpointMonitor";
  save["prefix"] = request.name;
  save["save_checkpoint_steps"] = 500;
  save["integrated_save"] = false;
  save["async_save"] = false;
  root["callbacks"] = yaml_list({loss, save});
  YAML::Node context = root["context"];
  context["mode"] = 0;
  context["device_target"] = "Ascend";
  context["max_call_depth"] = 10000;
  // What CANN and HCCL need stays outside of the framework's pool.
  const Chip& chip = request.cluster.chip;
  const double pool = chip.usable_bytes() / 0x1p30;
  context["max_device_memory"] = fmt::format("{}GB", static_cast<int64_t>(pool));
  context["save_graphs"] = false;
  context["device_id"] = 0;
  root["model"]["model_config"] = model_config(job);
  root["model"]["arch"]["type"] = "LlamaForCausalLM";
  return fmt::format("# {}\n# Written by `plait plan export --to mindformers`.\n{}",
                     headline(request), yaml_text(root));
}

std::string mindformers_launch(const ExportRequest& request) {
  const Machines machines = machines_of(request);
  const bool alone = machines.servers == 1;
  std::vector<ScriptVariable> variables = {
      {"MINDFORMERS_PATH", "a MindFormers checkout", ""},
      {"DATA_PATH", "absolute path of the MindRecord files", ""}};
  if (!alone) {
    variables.push_back(
        {"NODE_RANK", fmt::format("number of this server, 0 to {}", machines.servers - 1), ""});
    variables.push_back({"MASTER_ADDR", "address of the server with NODE_RANK=0", ""});
  }
  variables.push_back({"MASTER_PORT", "a free port there", "8118"});
  variables.push_back({"SAVE_DIR", "directory for checkpoints and logs", "$PWD/output"});
  variables.push_back(
      {"ASCEND_ENV", "CANN's environment script", "/usr/local/Ascend/ascend-toolkit/set_env.sh"});
  std::string text =
      script_head(
          {.headline = headline(request), .kind = "mindformers", .directives = "", .usage = ""}) +
      script_variables(variables) +
      "\nset +u\nsource \"$ASCEND_ENV\"\nset -u\nexport HCCL_CONNECT_TIMEOUT=1200\n";
  if (request.job.comm_buffer_bytes > 0) {
    text += fmt::format("export HCCL_BUFFSIZE={}\n", request.job.comm_buffer_bytes >> 20);
  }
  text += "\nhere=$(cd \"$(dirname \"$0\")\" && pwd)\ncd \"$MINDFORMERS_PATH\"\n";
  text += script_array("LAUNCH_ARGS", {{"--worker_num", std::to_string(machines.world)},
                                       {"--local_worker_num", std::to_string(machines.per_server)},
                                       {"--node_rank", alone ? "0" : "\"$NODE_RANK\""},
                                       {"--master_addr", alone ? "127.0.0.1" : "\"$MASTER_ADDR\""},
                                       {"--master_port", "\"$MASTER_PORT\""},
                                       {"--join", "True"},
                                       {"--log_dir", "\"$SAVE_DIR/msrun_log\""}});
  return text +
         fmt::format(
             "msrun \"${{LAUNCH_ARGS[@]}}\" run_mindformer.py --config \"$here/{}.yaml\" \\\n"
             "  --train_dataset_dir \"$DATA_PATH\" --output_dir \"$SAVE_DIR\"\n",
             request.name);
}

}  // namespace

std::vector<ExportedFile> export_mindformers(const ExportRequest& request) {
  Refusals no("MindFormers");
  refuse_for_mindformers(request.job, no);
  no.when(request.sizes_only,
          {"a model of the catalogue", "RoPE and epsilon are not known; give its config.json"});
  no.check();
  return {{request.name + ".sh", mindformers_launch(request), true},
          {request.name + ".yaml", yaml(request), false}};
}

}  // namespace plait
