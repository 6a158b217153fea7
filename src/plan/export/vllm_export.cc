// Command lines of vllm serve, with the environment of vllm-ascend.
#include <fmt/format.h>

#include "plan/export/exporters.h"
#include "plan/export/script.h"

namespace plait {
namespace {

void refuse(const ExportRequest& request, Refusals& no) {
  const TrainJob& job = request.job;
  const Layout& l = job.layout;
  const int devices = request.cluster.devices_per_server;
  no.when(l.cp > 1, {fmt::format("cp = {}", l.cp), "a serving layout is tp, pp, dp and ep"});
  no.when(l.vpp > 1, {fmt::format("vpp = {}", l.vpp), "serving has no virtual stages"});
  no.when(l.zero > 0, {fmt::format("zero = {}", l.zero), "serving has no optimizer"});
  no.when(l.sp, {"sp", "serving splits no sequence"});
  no.when(l.recompute != Recompute::kNone, {"recompute", "serving keeps no activations"});
  no.when(!l.stage_layers.empty(), {"stage_layers", "vllm splits stages itself"});
  no.when(job.lora.rank > 0, {"lora", "serve the merged model"});
  no.when(job.offload_optimizer, {"offload_optimizer", "serving has no optimizer"});
  no.when(l.ep > 1 && l.ep != l.tp * l.dp,
          {fmt::format("ep = {}", l.ep),
           fmt::format("vllm spreads experts over all tp x dp = {} devices, or not at all",
                       l.tp * l.dp)});
  no.when(
      l.tp * l.pp > devices,
      {fmt::format("tp x pp = {}", l.tp * l.pp),
       fmt::format("a replica on more than one server ({} devices) needs a Ray cluster of yours",
                   devices)});
  no.when(job.dtype != DType::kBF16 && job.dtype != DType::kF16,
          {fmt::format("dtype = {}", dtype_name(job.dtype)), "vllm-ascend serves bf16 and fp16"});
  const double utilization = request.memory_utilization;
  no.when(utilization <= 0 || utilization > 1,
          {fmt::format("memory utilization = {}", utilization), "must be above 0 and at most 1"});
}

std::vector<ScriptFlag> serve_flags(const ExportRequest& request) {
  const TrainJob& job = request.job;
  const Layout& l = job.layout;
  const Machines machines = machines_of(request);
  std::vector<ScriptFlag> flags = {
      {"--served-model-name", request.name},
      {"--host", "\"$HOST\""},
      {"--port", "\"$PORT\""},
      {"--dtype", job.dtype == DType::kBF16 ? "bfloat16" : "float16"},
      {"--tensor-parallel-size", std::to_string(l.tp)},
      {"--pipeline-parallel-size", std::to_string(l.pp)},
  };
  if (l.dp > 1) {
    flags.push_back({"--data-parallel-size", std::to_string(l.dp)});
  }
  if (machines.servers > 1) {
    flags.push_back({"--data-parallel-size-local", std::to_string(l.dp / machines.servers)});
    flags.push_back({"--data-parallel-address", "\"$MASTER_ADDR\""});
    flags.push_back({"--data-parallel-rpc-port", "\"$RPC_PORT\""});
  }
  if (l.ep > 1) {
    flags.push_back({"--enable-expert-parallel", ""});
  }
  flags.push_back({"--max-model-len", std::to_string(job.batch.seq_len)});
  flags.push_back({"--max-num-seqs", std::to_string(request.max_sequences)});
  flags.push_back({"--gpu-memory-utilization", fmt::format("{}", request.memory_utilization)});
  return flags;
}

}  // namespace

std::vector<ExportedFile> export_vllm(const ExportRequest& request) {
  Refusals no("vllm-ascend");
  refuse(request, no);
  no.check();
  const Layout& l = request.job.layout;
  const Machines machines = machines_of(request);
  std::vector<ScriptVariable> variables = {{"MODEL_PATH", "HF model directory", ""}};
  if (machines.servers > 1) {
    variables.push_back(
        {"NODE_RANK", fmt::format("number of this server, 0 to {}", machines.servers - 1), ""});
    variables.push_back({"MASTER_ADDR", "address of the server with NODE_RANK=0", ""});
    variables.push_back({"RPC_PORT", "a free port there", "13389"});
  }
  variables.push_back({"HOST", "address to listen on", "127.0.0.1"});
  variables.push_back({"PORT", "port to listen on", "8000"});
  std::string text = script_head(
      {.headline =
           fmt::format("vllm serve: tp{}.pp{}.dp{}, contexts of {} tokens, on {} x {}", l.tp, l.pp,
                       l.dp, request.job.batch.seq_len, machines.world, request.cluster.chip.name),
       .kind = "vllm-ascend",
       .directives = "",
       .usage = machines.servers > 1
                    ? "Start it on each server; the API is at the one with NODE_RANK=0.\n"
                    : ""});
  text += script_variables(variables) +
          "\nexport PYTORCH_NPU_ALLOC_CONF=expandable_segments:True\n"
          "export TASK_QUEUE_ENABLE=1\n"
          "export OMP_NUM_THREADS=1\n"
          "export HCCL_CONNECT_TIMEOUT=1200\n"
          "export HCCL_BUFFSIZE=200\n\n" +
          script_array("SERVE_ARGS", serve_flags(request));
  if (machines.servers > 1) {
    text += fmt::format(
        "if [ \"$NODE_RANK\" != 0 ]; then\n"
        "  SERVE_ARGS+=(--headless --data-parallel-start-rank $((NODE_RANK * {})))\nfi\n",
        l.dp / machines.servers);
  }
  text += "vllm serve \"$MODEL_PATH\" \"${SERVE_ARGS[@]}\"\n";
  return {{request.name + "-serve.sh", text, true}};
}

}  // namespace plait
