// Run files of plait train, with the model's config.json beside.
#include <sstream>

#include <fmt/format.h>

#include "base/json_full.h"
#include "base/toml_full.h"
#include "plan/export/exporters.h"
#include "plan/export/script.h"

namespace plait {
namespace {

const char* precision_name(DType dtype) {
  return dtype == DType::kBF16 ? "bf16" : dtype == DType::kF16 ? "fp16" : "f32";
}

void refuse_for_plait(const TrainJob& job, Refusals& no) {
  no.when(job.dtype != DType::kBF16 && job.dtype != DType::kF16 && job.dtype != DType::kF32,
          {fmt::format("dtype = {}", dtype_name(job.dtype)), "plait trains in f32, bf16 and fp16"});
  no.when(job.lora.rank > 0,
          {fmt::format("lora rank = {}", job.lora.rank), "plait trains all weights"});
  no.when(job.dropout > 0, {fmt::format("dropout = {}", job.dropout), "plait has none"});
  no.when(job.etp > 0, {fmt::format("etp = {}", job.etp), "plait trains no experts"});
  no.when(job.recompute_layers >= 0 && job.layout.recompute == Recompute::kFull,
          {fmt::format("recompute_layers = {}", job.recompute_layers),
           "plait recomputes all layers or none"});
  no.when(job.recompute_activation_layers != 0, {"recompute_activation_layers", "MindSpeed's"});
  no.when(job.swap_attention, {"swap_attention", "MindSpeed's"});
  no.when(job.overlap_param_gather, {"overlap_param_gather", "plait gathers after the step"});
  no.when(job.overlap_tp_comm, {"overlap_tp_comm", "plait does not split its products"});
  no.when(job.reuse_fp32_param, {"reuse_fp32_param", "MindSpeed's"});
  no.when(job.offload_optimizer, {"offload_optimizer", "plait's optimizer stays on the device"});
  no.when(job.grad_bytes != 0, {"grad_bytes", "plait's gradients follow the precision"});
  no.when(job.comm_buffer_bytes != 0, {"comm_buffer_bytes", "plait sizes its buffers itself"});
}

std::string run_text(const ExportRequest& request) {
  const TrainJob& job = request.job;
  const Layout& l = job.layout;
  toml::table model, layout, batch, machine;
  model.insert("precision", precision_name(job.dtype));
  model.insert("vocab_multiple", job.vocab_multiple);
  layout.insert("layout", to_string(l));
  layout.insert("schedule", schedule_name(l.schedule));
  layout.insert("recompute", recompute_name(l.recompute));
  if (!l.stage_layers.empty()) {
    toml::array counts;
    for (const int64_t count : l.stage_layers) {
      counts.push_back(count);
    }
    layout.insert("stage_layers", counts);
  }
  machine.insert("ranks", int64_t{l.world_size()});
  machine.insert("overlap_grad_reduce", job.overlap_grad_reduce);
  batch.insert("global_batch_size", job.batch.global_batch_size);
  batch.insert("micro_batch_size", job.batch.micro_batch_size);
  batch.insert("seq_len", job.batch.seq_len);
  const toml::table run{
      {"model", model}, {"layout", layout}, {"machine", machine}, {"batch", batch}};
  std::ostringstream out;
  out << run;
  return fmt::format(
      "# {}\n# Written by `plait plan export --to plait`; flags of plait train win.\n{}\n",
      headline(request), out.str());
}

}  // namespace

std::vector<ExportedFile> export_plait(const ExportRequest& request) {
  const TrainJob& job = request.job;
  check_trainable(job.model, job.model_name);
  Refusals no("plait train");
  refuse_for_plait(job, no);
  no.check();
  const Machines machines = machines_of(request);
  std::string script = script_head(
      {.headline = headline(request),
       .kind = "plait",
       .directives = "",
       .usage = machines.servers > 1 ? "Start it under mpirun or srun, one process a rank.\n"
                                     : "The ranks are threads of one process.\n"});
  std::vector<ScriptVariable> variables;
  if (request.sizes_only) {
    variables.push_back({"MODEL_PATH", "HF config.json, or a directory with one", ""});
  }
  for (const ScriptVariable& variable : std::vector<ScriptVariable>{
           {"DATA_PATH", "PREFIX of a .bin/.idx pair, or a .jsonl file", ""},
           {"SAVE_DIR", "run directory for checkpoints and metrics", "$PWD/run"},
           {"TRAIN_ITERS", "optimizer steps", "2000"},
           {"LR", "learning rate after warm-up", "3e-4"}}) {
    variables.push_back(variable);
  }
  script += script_variables(variables);
  script += fmt::format(
      "\nhere=$(dirname \"$0\")\n"
      "plait train --run \"$here/{}.toml\" --model \"{}\" --data \"$DATA_PATH\" \\\n"
      "  --out \"$SAVE_DIR\" --steps \"$TRAIN_ITERS\" --lr \"$LR\"\n",
      request.name, request.sizes_only ? "$MODEL_PATH" : "$here/config.json");
  std::vector<ExportedFile> files = {{request.name + ".sh", script, true},
                                     {request.name + ".toml", run_text(request), false}};
  if (request.sizes_only) {
    return files;
  }
  const char* dtype = job.dtype == DType::kF32 ? "float32" : "bfloat16";
  files.push_back({"config.json", dump_json(to_hf_config(job.model, dtype), 2) + "\n", false});
  return files;
}

}  // namespace plait
