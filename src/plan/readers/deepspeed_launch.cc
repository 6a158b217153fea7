// HF Trainer style programs (transformers, LlamaFactory, FastChat) that are started with a
// DeepSpeed configuration.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "plan/readers/deepspeed.h"
#include "plan/readers/deepspeed_reader.h"
#include "plan/readers/llamafactory.h"

namespace plait {
namespace {

// "--flag value" or "--flag=value" among the program's arguments, '-' for '_'.
const ShellWord* find_value(const Launch& launch, std::string_view name, ShellWord& joined) {
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    std::string text = launch.arguments[i].text;
    const size_t equals = std::min(text.find('='), text.size());
    std::string flag = text.substr(0, equals);
    std::replace(flag.begin(), flag.end(), '-', '_');
    if (flag != "__" + std::string(name)) {
      continue;
    }
    if (equals < text.size()) {
      joined = launch.arguments[i];
      joined.text = text.substr(equals + 1);
      return &joined;
    }
    if (i + 1 < launch.arguments.size() && !launch.arguments[i + 1].text.starts_with("--")) {
      return &launch.arguments[i + 1];
    }
  }
  return nullptr;
}

int64_t find_size(const Launch& launch, const std::string& origin,
                  std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    ShellWord joined;
    const ShellWord* word = find_value(launch, name, joined);
    if (word == nullptr) {
      continue;
    }
    const SourceLine where{origin, word->line};
    if (!word->known()) {
      throw_error(ErrorCode::kInvalidArgument, "{}: the value of --{} is not known: {}",
                  where.text(), name, word->unknown);
    }
    const auto number = parse_integer(word->text);
    if (!number || *number < 1 || *number > (int64_t{1} << 31)) {
      throw_error(ErrorCode::kInvalidArgument, "{}: --{} is {}, but must be 1 to 2^31",
                  where.text(), name, word->text.substr(0, 40));
    }
    return *number;
  }
  return 0;
}

const ShellWord* config_word(const Launch& launch, ShellWord& joined) {
  for (const std::string_view name : {"deepspeed", "deepspeed_config", "deepspeed_config_file"}) {
    const ShellWord* word = find_value(launch, name, joined);
    if (word != nullptr && (word->text.ends_with(".json") || launch.launcher == "swift")) {
      return word;
    }
  }
  return nullptr;
}

// The value of --deepspeed: a file, or a name that stands for one of the framework's own. Empty:
// none. Of a path whose beginning is not known, what is there of its end.
std::string config_name(const Launch& launch, const std::string& origin) {
  ShellWord joined;
  const ShellWord* word = config_word(launch, joined);
  if (word == nullptr || word->known()) {
    return word == nullptr ? "" : word->text;
  }
  std::string rest = word->text;
  for (size_t slash = rest.find('/'); slash != std::string::npos; slash = rest.find('/')) {
    rest = rest.substr(slash + 1);
    if (rest.ends_with(".json") && std::filesystem::exists(find_beside(rest, origin))) {
      return rest;
    }
  }
  if (rest.ends_with(".json") && rest.size() < word->text.size()) {
    return rest;
  }
  throw_error(ErrorCode::kInvalidArgument, "{}: the value of --deepspeed is not known: {}",
              SourceLine{origin, word->line}.text(), word->unknown);
}

// Programs that need no launcher, and that run without DeepSpeed too.
bool is_trainer(const Launch& launch) {
  return launch.launcher == "swift" || launch.launcher == "llamafactory-cli";
}

// "ds_z3_offload_config.json" of LLaMA-Factory, "zero2" of ms-swift: what such a file says of
// memory. Empty for other names.
std::string published_config(const std::string& name) {
  const std::string base = std::filesystem::path(name).filename().string();
  for (const std::string_view prefix : {"ds_z", "zero"}) {
    if (!base.starts_with(prefix) || base.size() <= prefix.size()) {
      continue;
    }
    const char stage = base[prefix.size()];
    if (stage < '0' || stage > '3') {
      continue;
    }
    const bool offload = base.find("offload") != std::string::npos;
    return fmt::format(R"({{"zero_optimization": {{"stage": {}{}{}}}}})", stage,
                       offload ? R"(, "offload_optimizer": {"device": "cpu"})" : "",
                       offload && stage == '3' ? R"(, "offload_param": {"device": "cpu"})" : "");
  }
  return "";
}

bool is_off(const ShellWord* word) {
  return word != nullptr && (word->text == "False" || word->text == "false" || word->text == "0");
}

// Adapters: --finetuning_type lora, --train_type lora (ms-swift's default), --use_lora.
void read_adapters(const Launch& launch, const std::string& origin, ReadJob& job) {
  ShellWord joined;
  std::string type = launch.launcher == "swift" ? "lora" : "";
  for (const std::string_view flag : {"finetuning_type", "train_type", "tuner_type", "sft_type"}) {
    if (const ShellWord* word = find_value(launch, flag, joined)) {
      type = word->text;
    }
  }
  const ShellWord* use = find_value(launch, "use_lora", joined);
  const bool used = use != nullptr && !is_off(use);
  const int64_t rank = find_size(launch, origin, {"lora_rank", "lora_r"});
  if (type == "lora" || used || (type.empty() && rank > 0)) {
    job.job.lora.rank = rank > 0 ? rank : 8;
    job.assumptions.push_back(
        {fmt::format("adapters (LoRA) of rank {} on all linear maps are taken", job.job.lora.rank),
         {origin, 0}});
  }
}

struct ConfigText {
  std::string name;  // as the launch has it; empty: none
  std::string text;
  std::string origin;
  int first_line = 1;
  bool is_published = false;  // by its name alone
};

// A here-document of the script, a file, or what the name says.
ConfigText config_of(const Launch& launch, const ShellScript& script) {
  const std::string name = config_name(launch, script.origin);
  if (name.empty()) {
    return {name, "{}", script.origin};
  }
  if (const ShellWord* heredoc = find_file(script, name)) {
    return {name, heredoc->text, script.origin, heredoc->line};
  }
  const std::string path = find_beside(name, script.origin);
  const std::string published = published_config(name);
  if (!std::filesystem::exists(path) && !published.empty()) {
    return {name, published, script.origin, 1, true};
  }
  return {name, read_file(path), path};
}

// Activation checkpointing as the program decides it.
void read_checkpointing(const Launch& launch, ReadJob& job) {
  ShellWord joined;
  const ShellWord* flag = find_value(launch, "gradient_checkpointing", joined);
  ShellWord other;
  const ShellWord* disabled = find_value(launch, "disable_gradient_checkpointing", other);
  // ms-swift and LLaMA-Factory turn it on by themselves.
  const bool on = flag != nullptr ? !is_off(flag) : is_trainer(launch);
  if (on && (disabled == nullptr || is_off(disabled))) {
    job.job.layout.recompute = Recompute::kFull;
  }
}

}  // namespace

bool is_deepspeed_launch(const Launch& launch) {
  const bool megatron =
      std::any_of(launch.arguments.begin(), launch.arguments.end(), [](const ShellWord& word) {
        return word.text == "--num-layers" || word.text == "--tensor-model-parallel-size";
      });
  ShellWord joined;
  return !megatron && (is_trainer(launch) || config_word(launch, joined) != nullptr);
}

ReadJob read_deepspeed_launch(const Launch& started, const ShellScript& script,
                              const ReadOptions& options) {
  Launch launch = started;
  if (launch.launcher == "llamafactory-cli") {
    launch.arguments = llamafactory_flags(launch, script.origin);
  }
  const ConfigText config = config_of(launch, script);
  DeepSpeedReader reader(config.text, config.origin, options, config.first_line);
  reader.set_launched(launch.world_size());
  reader.set_sequence(find_size(launch, script.origin,
                                {"cutoff_len", "model_max_length", "max_seq_length", "max_seq_len",
                                 "max_length", "max_len", "seq_length"}));
  reader.set_micro_batch(
      find_size(launch, script.origin, {"per_device_train_batch_size", "micro_train_batch_size"}));
  reader.set_accumulation(find_size(launch, script.origin, {"gradient_accumulation_steps"}));
  ShellWord joined;
  for (const std::string_view flag : {"model_name_or_path", "model_path", "pretrain", "model"}) {
    const ShellWord* word = find_value(launch, flag, joined);
    if (word == nullptr || !word->known()) {
      continue;
    }
    if (is_known_model(word->text)) {
      reader.set_model(word->text);
    }
    break;
  }
  ReadJob job = reader.read();
  job.kind = config.name.empty() ? "launch of a HF Trainer program"
                                 : "launch script with a DeepSpeed configuration";
  if (config.is_published) {
    job.assumptions.push_back(
        {fmt::format("'{}' is not here: the framework's own file of that name is taken",
                     config.name),
         {script.origin, 0}});
  }
  job.environment = launch.environment;
  job.assumptions.insert(job.assumptions.end(), launch.notes.begin(), launch.notes.end());
  read_adapters(launch, script.origin, job);
  read_checkpointing(launch, job);
  const ShellWord* bf16 = find_value(launch, "bf16", joined);
  const ShellWord* fp16 = find_value(launch, "fp16", joined);
  if (job.job.dtype == DType::kF32 || job.job.dtype == DType::kBF16) {
    job.job.dtype = bf16 != nullptr && bf16->text != "False"   ? DType::kBF16
                    : fp16 != nullptr && fp16->text != "False" ? DType::kF16
                                                               : job.job.dtype;
  }
  return job;
}

}  // namespace plait
