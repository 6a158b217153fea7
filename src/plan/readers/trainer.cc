// HF Trainer style programs (transformers, trl, LlamaFactory, ms-swift, FastChat), started with
// DeepSpeed, FSDP or neither.
#include "plan/readers/trainer.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "plan/readers/accelerate.h"
#include "plan/readers/deepspeed_reader.h"
#include "plan/readers/trainer_flags.h"

namespace plait {
namespace {

constexpr std::string_view kConfigFlags[] = {"deepspeed", "deepspeed_config",
                                             "deepspeed_config_file"};

// Programs that need no launcher, and that run without DeepSpeed too.
bool is_framework(const Launch& launch) {
  return launch.launcher == "swift" || launch.launcher == "llamafactory-cli";
}

bool is_accelerate(const Launch& launch) {
  return launch.launcher.starts_with("accelerate");
}

bool is_yaml_name(const std::string& text) {
  return (text.ends_with(".yaml") || text.ends_with(".yml")) && text.find('=') == std::string::npos;
}

// The program's flags: the command line, then the YAML file that it names; `unread` is told if that
// is not here.
TrainerFlags flags_of(const Launch& launch, const std::string& origin,
                      std::vector<Note>* unread = nullptr) {
  std::vector<ShellWord> typed;
  std::string path;
  for (const ShellWord& word : launch.arguments) {
    if (is_yaml_name(word.text)) {
      path = word.known() ? find_beside(word.text, origin) : "";
      if (unread != nullptr && !path_exists(path)) {
        unread->push_back(
            {fmt::format("{} is not here: what it sets is not known", shortened(word.text, 80)),
             {origin, word.line}});
      }
      continue;
    }
    ShellWord flag = word;
    // "llamafactory-cli train FILE.yaml learning_rate=1e-4"
    const bool is_key = launch.launcher == "llamafactory-cli" && !word.text.starts_with("-") &&
                        word.text.find('=') != std::string::npos;
    flag.text = is_key ? "--" + word.text : word.text;
    typed.push_back(std::move(flag));
  }
  TrainerFlags flags;
  flags.add(std::move(typed), origin);
  if (!path.empty() && (path_exists(path) || launch.launcher == "llamafactory-cli")) {
    flags.add(yaml_flags(read_file(path), path), path);
  }
  return flags;
}

// A DeepSpeed configuration that says the same of memory.
std::string zero_config(int stage, bool offload_optimizer, bool offload_parameters) {
  return fmt::format(
      R"({{"zero_optimization": {{"stage": {}{}{}}}}})", stage,
      offload_optimizer && stage > 0 ? R"(, "offload_optimizer": {"device": "cpu"})" : "",
      offload_parameters && stage == 3 ? R"(, "offload_param": {"device": "cpu"})" : "");
}

// "ds_z3_offload_config.json" of LLaMA-Factory, "zero2" of ms-swift. Empty for other names.
std::string published_config(const std::string& name) {
  const std::string base = std::filesystem::path(name).filename().string();
  for (const std::string_view prefix : {"ds_z", "zero", "default-zero"}) {
    if (!base.starts_with(prefix) || base.size() <= prefix.size()) {
      continue;
    }
    const char stage = base[prefix.size()];
    if (stage >= '0' && stage <= '3') {
      const bool offload = base.find("offload") != std::string::npos;
      return zero_config(stage - '0', offload, offload);
    }
  }
  return "";
}

std::optional<TrainerFlag> config_flag(const Launch& launch, const TrainerFlags& flags) {
  for (const std::string_view name : kConfigFlags) {
    auto flag = flags.find(name);
    if (!flag) {
      continue;
    }
    const std::string& text = flag->word.text;
    const bool names_config = text.ends_with(".json") || text.starts_with("{") ||
                              !published_config(text).empty() || launch.launcher == "swift";
    if (names_config || !flag->word.known()) {
      return flag;
    }
  }
  return std::nullopt;
}

// The value of --deepspeed: a file, or a name that stands for one of the framework's own. Empty:
// none. Of a path whose beginning is not known, what is there of its end.
std::string config_name(const std::optional<TrainerFlag>& flag) {
  if (!flag || flag->word.known()) {
    return flag ? flag->word.text : "";
  }
  std::string rest = flag->word.text;
  for (size_t slash = rest.find('/'); slash != std::string::npos; slash = rest.find('/')) {
    rest = rest.substr(slash + 1);
    if (rest.ends_with(".json") && path_exists(find_beside(rest, flag->where.file))) {
      return rest;
    }
  }
  if (rest.ends_with(".json") && rest.size() < flag->word.text.size()) {
    return rest;
  }
  throw_error(ErrorCode::kInvalidArgument, "{}: the value of --deepspeed is not known: {}",
              flag->where.text(), flag->word.unknown);
}

struct ConfigText {
  std::string name;  // as the launch has it; empty: none
  std::string text = "{}";
  std::string origin;
  int first_line = 1;
  bool is_published = false;  // by its name alone
};

// A here-document of the script, a file, or what the name says.
ConfigText find_config(const std::string& name, const ShellScript& script) {
  if (const ShellWord* heredoc = find_file(script, name)) {
    return {name, heredoc->text, script.origin, heredoc->line};
  }
  const std::string path = find_beside(name, script.origin);
  const std::string published = published_config(name);
  if (!path_exists(path) && !published.empty()) {
    return {name, published, script.origin, 1, true};
  }
  return {name, read_file(path), path};
}

// LLaMA-Factory's program is also started by itself: torchrun src/train.py --stage sft ...
bool is_framework(const Launch& launch, const TrainerFlags& flags) {
  return is_framework(launch) || (flags.has("stage") && flags.has("template"));
}

// Adapters: --finetuning_type lora, --train_type lora (ms-swift's default), --use_peft.
void read_adapters(const Launch& launch, const TrainerFlags& flags, const std::string& origin,
                   ReadJob& job) {
  std::string type = is_framework(launch, flags) ? "lora" : "";  // their default
  for (const std::string_view name : {"finetuning_type", "train_type", "tuner_type", "sft_type"}) {
    if (const auto flag = flags.find(name)) {
      type = flag->word.text;
    }
  }
  bool used = false;
  bool refused = false;
  for (const std::string_view name : {"use_lora", "use_peft", "lora_enable"}) {
    const auto given = flags.find_switch(name);
    used |= given.value_or(false);
    refused |= given && !*given;
  }
  const int64_t rank = flags.find_size({"lora_rank", "lora_r"});
  if (type == "lora" || used || (type.empty() && rank > 0 && !refused)) {
    job.job.lora.rank = rank > 0 ? rank : 8;
    job.assumptions.push_back(
        {fmt::format("adapters (LoRA) of rank {} on all linear maps are taken", job.job.lora.rank),
         {origin, 0}});
  }
}

// Activation checkpointing as the program decides it.
void read_checkpointing(const Launch& launch, const TrainerFlags& flags, ReadJob& job) {
  // ms-swift and LLaMA-Factory turn it on by themselves.
  const bool on = flags.find_switch("gradient_checkpointing").value_or(is_framework(launch, flags));
  if (on && !flags.is_on("disable_gradient_checkpointing")) {
    job.job.layout.recompute = Recompute::kFull;
  }
}

// What of the program's settings takes less memory than is estimated; empty: nothing.
std::string find_savings(const Launch& launch, const TrainerFlags& flags, bool has_config) {
  for (const std::string_view name :
       {"pure_bf16", "load_in_4bit", "load_in_8bit", "use_galore", "use_badam", "use_apollo",
        "use_unsloth", "use_liger_kernel", "enable_liger_kernel", "freeze_backbone", "freeze_llm",
        "freeze_language_model"}) {
    if (flags.is_on(name)) {
      return std::string(name);
    }
  }
  for (const std::string_view name : {"quantization_bit", "quant_bits", "bits"}) {
    if (const auto bits = flags.find(name);
        bits && (bits->word.text == "4" || bits->word.text == "8")) {
      return std::string(name);
    }
  }
  if (const auto optimizer = flags.find("optim")) {
    static constexpr std::string_view kPlain[] = {"adamw_torch", "adamw_torch_fused", "adamw_hf",
                                                  "adamw_apex_fused", "adamw_torch_npu_fused"};
    if (std::find(std::begin(kPlain), std::end(kPlain), optimizer->word.text) == std::end(kPlain)) {
      return "optim = " + shortened(optimizer->word.text, 40);
    }
  }
  if (const auto type = flags.find("finetuning_type"); type && type->word.text == "freeze") {
    return "finetuning_type = freeze";
  }
  // Without a configuration that keeps f32 copies, weights and states stay as they were loaded.
  for (const std::string_view name : {"torch_dtype", "dtype"}) {
    const auto type = flags.find(name);
    if (type && !has_config && !is_framework(launch, flags) &&
        type->word.text.find("16") != std::string::npos) {
      return fmt::format("{} = {}", name, shortened(type->word.text, 40));
    }
  }
  return "";
}

class TrainerReader {
 public:
  TrainerReader(const Launch& launch, const ShellScript& script, const ReadOptions& options)
      : launch_(launch),
        script_(script),
        options_(options),
        flags_(flags_of(launch, script.origin, &unread_)) {}

  ReadJob read() {
    choose_config();
    count_processes();
    DeepSpeedReader reader(config_.text, config_.origin, options_, config_.first_line);
    set_numbers(reader);
    ReadJob job = reader.read();
    job.kind = kind();
    job.origin = script_.origin;
    job.not_evaluated.insert(job.not_evaluated.end(), unread_.begin(), unread_.end());
    if (config_.is_published) {
      job.assumptions.push_back(
          {fmt::format("'{}' is not here: the framework's own file of that name is taken",
                       config_.name),
           {script_.origin, 0}});
    }
    job.environment = launch_.environment;
    job.assumptions.insert(job.assumptions.end(), launch_.notes.begin(), launch_.notes.end());
    read_adapters(launch_, flags_, script_.origin, job);
    read_checkpointing(launch_, flags_, job);
    if (accelerate_) {
      job.assumptions.insert(job.assumptions.end(), accelerate_->notes.begin(),
                             accelerate_->notes.end());
      job.unknown_flags.insert(job.unknown_flags.end(), accelerate_->unknown_keys.begin(),
                               accelerate_->unknown_keys.end());
      if (is_accelerate(launch_) && accelerate_->num_machines > 0) {
        job.servers = accelerate_->num_machines;
        job.per_server = world_ / accelerate_->num_machines;
      }
      if (accelerate_->recomputes) {
        job.job.layout.recompute = Recompute::kFull;
      }
    }
    read_precision(job);
    const bool has_config = !config_.name.empty() || (accelerate_ && accelerate_->zero > 0);
    const std::string savings = find_savings(launch_, flags_, has_config);
    if (!savings.empty()) {
      job.memory_is_upper_bound = true;
      job.assumptions.push_back(
          {fmt::format("{} saves memory that is counted here", savings), {script_.origin, 0}});
    }
    return job;
  }

 private:
  // The program's --deepspeed, accelerate's configuration, the program's --fsdp, or none.
  void choose_config() {
    config_.origin = script_.origin;
    const auto flag = config_flag(launch_, flags_);
    const auto fsdp = flags_.find("fsdp");
    if (is_accelerate(launch_)) {
      accelerate_ = read_accelerate(launch_, script_);
    } else if (!flag && fsdp && !fsdp->word.known()) {
      throw_error(ErrorCode::kInvalidArgument, "{}: the value of --fsdp is not known: {}",
                  fsdp->where.text(), fsdp->word.unknown);
    } else if (!flag && fsdp && flags_.is_on("fsdp")) {
      accelerate_ = fsdp_of_trainer(fsdp->word.text, fsdp->where);
    }
    const std::string name = flag          ? config_name(flag)
                             : accelerate_ ? accelerate_->deepspeed_file
                                           : "";
    if (name.starts_with("{")) {
      config_ = {"(in the command)", name, script_.origin};
    } else if (!name.empty()) {
      config_ = find_config(name, script_);
    } else if (accelerate_) {
      config_.text = zero_config(accelerate_->zero, accelerate_->offload_optimizer,
                                 accelerate_->offload_parameters);
      config_.origin = accelerate_->where.file;
    }
  }

  void count_processes() {
    world_ = launch_.world_size();
    if (world_ > 0 || !is_accelerate(launch_)) {
      return;
    }
    world_ = accelerate_->num_processes;
    if (world_ == 0 && options_.devices == 0) {
      world_ = std::max<int64_t>(accelerate_->num_machines, 1) *
               count_shown_devices(launch_, script_.origin, unread_);
    }
  }

  void set_numbers(DeepSpeedReader& reader) const {
    reader.set_launched(world_);
    reader.set_sequence(
        flags_.find_size({"cutoff_len", "model_max_length", "max_seq_length", "max_seq_len",
                          "max_length", "max_len", "seq_length", "block_size"}));
    reader.set_micro_batch(
        flags_.find_size({"per_device_train_batch_size", "micro_train_batch_size"}));
    const int64_t steps = flags_.find_size({"gradient_accumulation_steps"});
    reader.set_accumulation(steps > 0 || !accelerate_ ? steps : accelerate_->accumulation);
    for (const std::string_view name : {"model_name_or_path", "model_path", "pretrain", "model"}) {
      const auto flag = flags_.find(name);
      if (!flag || !flag->word.known()) {
        continue;
      }
      const std::string known = known_model(flag->word.text);
      if (known.empty()) {
        reader.set_unknown_model(flag->word.text);
      } else {
        reader.set_model(known);
      }
      break;
    }
  }

  std::string kind() const {
    return !config_.name.empty() ? "launch script with a DeepSpeed configuration"
           : accelerate_ ? fmt::format("launch of a HF Trainer program ({})", accelerate_->strategy)
                         : "launch of a HF Trainer program";
  }

  void read_precision(ReadJob& job) const {
    if (job.job.dtype != DType::kF32 && job.job.dtype != DType::kBF16) {
      return;
    }
    const std::string wide = accelerate_ ? accelerate_->precision : "";
    if (flags_.is_on("bf16") || wide == "bf16") {
      job.job.dtype = DType::kBF16;
    } else if (flags_.is_on("fp16") || wide == "fp16") {
      job.job.dtype = DType::kF16;
    }
  }

  const Launch& launch_;
  const ShellScript& script_;
  const ReadOptions& options_;
  int64_t world_ = 0;
  std::vector<Note> unread_;
  TrainerFlags flags_;
  ConfigText config_;
  std::optional<AccelerateConfig> accelerate_;
};

}  // namespace

bool is_trainer_launch(const Launch& launch, const std::string& origin) {
  const bool megatron =
      std::any_of(launch.arguments.begin(), launch.arguments.end(), [](const ShellWord& word) {
        return word.text == "--num-layers" || word.text == "--tensor-model-parallel-size";
      });
  if (megatron || launch.kind != ProgramKind::kPython) {
    return false;
  }
  if (is_framework(launch) || is_accelerate(launch)) {
    return true;
  }
  const TrainerFlags flags = flags_of(launch, origin);
  return config_flag(launch, flags).has_value() || flags.has("per_device_train_batch_size");
}

ReadJob read_trainer_launch(const Launch& launch, const ShellScript& script,
                            const ReadOptions& options) {
  return TrainerReader(launch, script, options).read();
}

std::optional<Launch> trainer_launch(const std::string& text, const std::string& origin,
                                     int devices) {
  const TrainerYaml kind = trainer_yaml_kind(text);
  if (kind == TrainerYaml::kNone) {
    return std::nullopt;
  }
  Launch launch;
  launch.world = devices;
  if (kind == TrainerYaml::kAccelerate) {
    launch.launcher = "accelerate";
    launch.launcher_arguments = {{.text = "--config_file=" + origin, .line = 0, .unknown = {}}};
    return launch;
  }
  launch.launcher = kind == TrainerYaml::kLlamaFactory ? "llamafactory-cli" : "";
  launch.program = origin;
  launch.arguments = yaml_flags(text, origin);
  return launch;
}

}  // namespace plait
