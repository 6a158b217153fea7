#include "plan/readers/vllm.h"

#include <algorithm>

#include "base/error.h"

namespace plait {
namespace {

constexpr std::string_view kBare[] = {"trust-remote-code",
                                      "enforce-eager",
                                      "enable-prefix-caching",
                                      "no-enable-prefix-caching",
                                      "enable-chunked-prefill",
                                      "no-enable-chunked-prefill",
                                      "enable-expert-parallel",
                                      "disable-log-requests",
                                      "disable-log-stats",
                                      "enable-auto-tool-choice",
                                      "enable-lora",
                                      "disable-custom-all-reduce",
                                      "enable-reasoning",
                                      "enable-sleep-mode",
                                      "disable-sliding-window",
                                      "skip-tokenizer-init",
                                      "async-scheduling",
                                      "enable-log-requests",
                                      "headless",
                                      "disable-uvicorn-access-log",
                                      "enable-eplb",
                                      "multi-step-stream-outputs",
                                      "disable-frontend-multiprocessing",
                                      "use-v2-block-manager",
                                      "enable-dbo",
                                      "language-model-only"};

constexpr std::string_view kVllmOneValue[] = {"model",
                                              "tensor-parallel-size",
                                              "pipeline-parallel-size",
                                              "data-parallel-size",
                                              "max-model-len",
                                              "gpu-memory-utilization",
                                              "max-num-seqs",
                                              "max-num-batched-tokens",
                                              "dtype",
                                              "quantization",
                                              "kv-cache-dtype",
                                              "block-size",
                                              "swap-space",
                                              "cpu-offload-gb",
                                              "seed",
                                              "host",
                                              "port",
                                              "api-key",
                                              "tokenizer",
                                              "tokenizer-mode",
                                              "load-format",
                                              "download-dir",
                                              "revision",
                                              "chat-template",
                                              "tool-call-parser",
                                              "reasoning-parser",
                                              "distributed-executor-backend",
                                              "max-lora-rank",
                                              "max-loras",
                                              "rope-scaling",
                                              "rope-theta",
                                              "speculative-config",
                                              "additional-config",
                                              "compilation-config",
                                              "kv-transfer-config",
                                              "data-parallel-address",
                                              "data-parallel-rpc-port",
                                              "data-parallel-size-local",
                                              "data-parallel-start-rank",
                                              "data-parallel-rank",
                                              "data-parallel-backend",
                                              "hf-overrides",
                                              "limit-mm-per-prompt",
                                              "max-seq-len-to-capture",
                                              "num-gpu-blocks-override",
                                              "preemption-mode",
                                              "scheduling-policy",
                                              "uvicorn-log-level",
                                              "root-path",
                                              "ssl-keyfile",
                                              "ssl-certfile",
                                              "config-format",
                                              "task",
                                              "generation-config",
                                              "override-generation-config",
                                              "guided-decoding-backend",
                                              "max-logprobs",
                                              "response-role",
                                              "nnodes",
                                              "node-rank",
                                              "master-addr",
                                              "master-port",
                                              "prefill-context-parallel-size",
                                              "decode-context-parallel-size",
                                              "api-server-count",
                                              "mm-processor-kwargs",
                                              "runner",
                                              "convert",
                                              "max-parallel-loading-workers",
                                              "ray-workers-use-nsight",
                                              "code-revision",
                                              "tokenizer-revision",
                                              "attention-backend",
                                              "kv-cache-memory-bytes",
                                              "profiler-config",
                                              "eplb-config"};

FlagTable make_vllm_table() {
  FlagTable table;
  for (const std::string_view name : kBare) {
    table.emplace(std::string(name), FlagSpec{Arity::kNone, false});
  }
  for (const std::string_view name : kVllmOneValue) {
    table.emplace(std::string(name), FlagSpec{Arity::kOne, false});
  }
  table.emplace("served-model-name", FlagSpec{Arity::kMany, false});
  table.emplace("lora-modules", FlagSpec{Arity::kMany, false});
  table.emplace("cuda-graph-sizes", FlagSpec{Arity::kMany, false});
  table.emplace("allowed-origins", FlagSpec{Arity::kMany, false});
  return table;
}

const FlagTable& vllm_flags() {
  static const FlagTable table = make_vllm_table();
  return table;
}

// Short forms in full; the model may stand first without a flag.
std::vector<ShellWord> normalised(const std::vector<ShellWord>& words, std::string& model) {
  std::vector<ShellWord> out;
  for (size_t i = 0; i < words.size(); ++i) {
    ShellWord word = words[i];
    if (i == 0 && !word.text.starts_with("-")) {
      if (!word.known()) {
        model = "";
      } else {
        model = word.text;
      }
      continue;
    }
    const std::pair<const char*, const char*> kShort[] = {
        {"-tp", "--tensor-parallel-size"}, {"-pp", "--pipeline-parallel-size"},
        {"-dp", "--data-parallel-size"},   {"-ep", "--enable-expert-parallel"},
        {"-q", "--quantization"},          {"-O", "--compilation-config"}};
    for (const auto& [brief, full] : kShort) {
      if (word.text == brief) {
        word.text = full;
      }
    }
    out.push_back(std::move(word));
  }
  return out;
}

}  // namespace

double ServeCommand::weight_bytes() const {
  const std::string& q = quantization;
  if (q == "awq" || q == "gptq" || q == "awq_marlin" || q == "gptq_marlin" || q == "bitsandbytes") {
    return 0.5625;  // 4 bits and a 16-bit scale for each 32
  }
  if (q == "fp8" || q == "ascend" || q == "w8a8" || q == "compressed-tensors" ||
      q == "smoothquant") {
    return 1;
  }
  return dtype == "float32" || dtype == "float" ? 4 : 2;
}

double ServeCommand::kv_bytes() const {
  return kv_cache_dtype.starts_with("fp8") || kv_cache_dtype == "int8" ? 1
         : dtype == "float32" || dtype == "float"                      ? 4
                                                                       : 2;
}

namespace {

// "32k", "1M" as vLLM reads them; 0: as the model has it.
int64_t read_model_length(const FlagSet& flags) {
  const std::string length = flags.text("max-model-len").value_or("auto");
  if (length.empty() || length == "auto" || length == "-1") {
    return 0;
  }
  const char unit = length.back();
  const int64_t factor = unit == 'k'   ? 1000
                         : unit == 'K' ? 1024
                         : unit == 'm' ? 1000000
                         : unit == 'M' ? 1 << 20
                                       : 1;
  const auto number = parse_integer(factor > 1 ? length.substr(0, length.size() - 1) : length);
  if (!number || *number < 1 || *number > (int64_t{1} << 31)) {
    throw_error(ErrorCode::kInvalidArgument, "{}: --max-model-len is {}, but must be 1 to 2^31",
                flags.where("max-model-len").text(), length.substr(0, 40));
  }
  return *number * factor;
}

}  // namespace

ServeCommand read_vllm(const Launch& launch, const std::string& origin) {
  std::string positional;
  const std::vector<ShellWord> words = normalised(launch.arguments, positional);
  ServeCommand command(FlagSet(words, vllm_flags(), origin));
  const FlagSet& flags = command.flags;
  command.model = flags.text("model").value_or(positional);
  const auto degree = [&](const char* name) {
    const int64_t value = flags.integer(name).value_or(1);
    if (value > 65536) {
      throw_error(ErrorCode::kInvalidArgument, "{}: --{} is {}, at most 65536 is possible",
                  flags.where(name).text(), name, value);
    }
    return value;
  };
  command.tp = degree("tensor-parallel-size");
  command.pp = degree("pipeline-parallel-size");
  command.dp = degree("data-parallel-size");
  command.expert_parallel = flags.has("enable-expert-parallel");
  command.max_model_len = read_model_length(flags);
  command.max_num_seqs = flags.integer("max-num-seqs").value_or(256);
  command.max_num_batched_tokens = flags.integer("max-num-batched-tokens").value_or(0);
  command.gpu_memory_utilization = flags.number("gpu-memory-utilization").value_or(0.9);
  command.dtype = flags.text("dtype").value_or("auto");
  command.quantization = flags.text("quantization").value_or("");
  command.kv_cache_dtype = flags.text("kv-cache-dtype").value_or("auto");
  command.eager = flags.has("enforce-eager");
  command.chunked_prefill_off = flags.has("no-enable-chunked-prefill");
  command.ascend = command.quantization == "ascend" || flags.has("additional-config") ||
                   has_ascend_variables(launch.environment);
  return command;
}

}  // namespace plait
