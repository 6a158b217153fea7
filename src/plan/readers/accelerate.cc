#include "plan/readers/accelerate.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "plan/readers/launch_words.h"
#include "plan/readers/read_job.h"
#include "plan/readers/trainer_flags.h"
#include "plan/readers/yaml_node.h"

namespace plait {
namespace {

// FSDP's strategies by name and number ("Fully Sharded Data Parallel" in accelerate's guide).
struct Strategy {
  const char* name;
  const char* number;
  int zero;
};
constexpr Strategy kStrategies[] = {{"full_shard", "1", 3},
                                    {"shard_grad_op", "2", 2},
                                    {"no_shard", "3", 0},
                                    {"hybrid_shard", "4", 3},
                                    {"hybrid_shard_zero2", "5", 2}};

constexpr std::array<std::string_view, 34> kTopKeys = {"compute_environment",
                                                       "debug",
                                                       "distributed_type",
                                                       "downcast_bf16",
                                                       "dynamo_config",
                                                       "dynamo_backend",
                                                       "deepspeed_config",
                                                       "fsdp_config",
                                                       "fp8_config",
                                                       "megatron_lm_config",
                                                       "parallelism_config",
                                                       "mpirun_config",
                                                       "ipex_config",
                                                       "enable_cpu_affinity",
                                                       "gpu_ids",
                                                       "machine_rank",
                                                       "main_process_ip",
                                                       "main_process_port",
                                                       "main_training_function",
                                                       "mixed_precision",
                                                       "num_machines",
                                                       "num_processes",
                                                       "rdzv_backend",
                                                       "same_network",
                                                       "tpu_env",
                                                       "tpu_name",
                                                       "tpu_zone",
                                                       "tpu_use_cluster",
                                                       "tpu_use_sudo",
                                                       "tpu_vm",
                                                       "use_cpu",
                                                       "command_file",
                                                       "commands",
                                                       "fp16"};

constexpr std::array<std::string_view, 15> kDeepSpeedKeys = {"deepspeed_config_file",
                                                             "deepspeed_hostfile",
                                                             "deepspeed_exclusion_filter",
                                                             "deepspeed_inclusion_filter",
                                                             "deepspeed_multinode_launcher",
                                                             "deepspeed_moe_layer_cls_names",
                                                             "gradient_accumulation_steps",
                                                             "gradient_clipping",
                                                             "offload_optimizer_device",
                                                             "offload_optimizer_nvme_path",
                                                             "offload_param_device",
                                                             "offload_param_nvme_path",
                                                             "zero3_init_flag",
                                                             "zero3_save_16bit_model",
                                                             "zero_stage"};

bool is_true(const std::string& value) {
  const std::string text = lower(value);
  return text == "true" || text == "1" || text == "yes";
}

class AccelerateReader {
 public:
  AccelerateReader(const Launch& launch, const ShellScript& script) : script_(script) {
    options_.add(launch.launcher_arguments, script.origin);
    out_.where = {script.origin, launch.line};
  }

  AccelerateConfig read() {
    if (const std::string file = told("config_file"); !file.empty()) {
      load(file);
    }
    out_.num_processes = number("num_processes", root_, "num_processes");
    const auto machines = options_.find("num_machines");
    out_.num_machines = machines && !machines->word.known()
                            ? 0
                            : std::max<int64_t>(number("num_machines", root_, "num_machines"), 1);
    out_.precision = lower(value("mixed_precision", root_, "mixed_precision"));
    const std::string type = lower(yaml_scalar(root_, "distributed_type"));
    if (options_.is_on("use_deepspeed") || type == "deepspeed") {
      read_deepspeed();
    } else if (options_.is_on("use_fsdp") || type == "fsdp") {
      read_fsdp();
    } else if (type == "megatron_lm") {
      throw_error(
          ErrorCode::kInvalidArgument,
          "{}: distributed_type MEGATRON_LM is not read; check a Megatron-LM script instead",
          out_.where.text());
    } else {
      out_.strategy = "DDP";
    }
    return std::move(out_);
  }

 private:
  // What the script writes, or a file beside it.
  void load(const std::string& name) {
    const ShellWord* inside = find_file(script_, name);
    const std::string path = inside == nullptr ? find_beside(name, script_.origin) : name;
    if (inside == nullptr && !path_exists(path)) {
      throw_error(ErrorCode::kNotFound, "{}: accelerate's --config_file '{}' is not here",
                  out_.where.text(), shortened(name, 200));
    }
    const std::string text = inside == nullptr ? read_file(path) : inside->text;
    constexpr size_t kMostBytes = 1 << 20;
    if (text.size() > kMostBytes) {
      throw_error(ErrorCode::kCorruptData, "{}: is larger than 1 MiB: no configuration", path);
    }
    try {
      const std::vector<YAML::Node> documents = yaml_documents(text);
      root_ = documents.empty() ? YAML::Node() : documents[0];
    } catch (const YAML::Exception& error) {
      throw_yaml_error(path, error);
    }
    out_.where = {path, 0};
    if (yaml_child(root_, "zero_optimization").IsMap() ||
        !yaml_scalar(root_, "train_batch_size").empty()) {
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: is a DeepSpeed configuration, which accelerate does not take as "
                  "--config_file: give it with --use_deepspeed --deepspeed_config_file",
                  path);
    }
    list_unknown(root_, "", kTopKeys);
    list_unknown(yaml_child(root_, "deepspeed_config"), "deepspeed_config.", kDeepSpeedKeys);
  }

  template <size_t N>
  void list_unknown(const YAML::Node& map, const std::string& prefix,
                    const std::array<std::string_view, N>& keys) {
    constexpr size_t kMostUnknown = 100;
    const std::vector<std::string> known(keys.begin(), keys.end());
    if (!map.IsMap()) {
      return;
    }
    for (const auto& entry : map) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "(no name)";
      if (std::find(known.begin(), known.end(), key) == known.end() &&
          out_.unknown_keys.size() < kMostUnknown) {
        out_.unknown_keys.push_back({prefix + shortened(key, 80),
                                     nearest_name(key, known),
                                     {out_.where.file, entry.first.Mark().line + 1}});
      }
    }
  }

  // The launcher's option, else the file's key.
  std::string value(std::string_view option, const YAML::Node& section, const char* key) const {
    const std::string text = told(option);
    return text.empty() ? yaml_scalar(section, key) : text;
  }

  // An option of the launcher; empty: not given.
  std::string told(std::string_view option) const {
    const auto flag = options_.find(option);
    if (flag && !flag->word.known()) {
      throw_error(ErrorCode::kInvalidArgument, "{}: the value of --{} is not known: {}",
                  flag->where.text(), option, flag->word.unknown);
    }
    return flag ? flag->word.text : "";
  }

  int64_t number(std::string_view option, const YAML::Node& section, const char* key) const {
    const std::string text = value(option, section, key);
    if (text.empty()) {
      return 0;
    }
    const auto parsed = parse_integer(text);
    if (text == "auto" || !parsed || *parsed < 1 || *parsed > kMaxProcesses) {
      if (text == "auto") {
        return 0;
      }
      throw_error(ErrorCode::kInvalidArgument, "{}: {} is {}, but must be 1 to {}",
                  out_.where.text(), key, shortened(text, 40), kMaxProcesses);
    }
    return *parsed;
  }

  void read_deepspeed() {
    const YAML::Node section = yaml_child(root_, "deepspeed_config");
    out_.deepspeed_file = value("deepspeed_config_file", section, "deepspeed_config_file");
    const std::string stage = value("zero_stage", section, "zero_stage");
    const auto parsed = parse_integer(stage.empty() ? "2" : stage);  // accelerate's default
    if (!parsed || *parsed < 0 || *parsed > 3) {
      throw_error(ErrorCode::kInvalidArgument, "{}: zero_stage is {}, but must be 0, 1, 2 or 3",
                  out_.where.text(), shortened(stage, 40));
    }
    out_.zero = static_cast<int>(*parsed);
    const auto offloads = [&](const char* name) {
      const std::string device = value(name, section, name);
      return device == "cpu" || device == "nvme";
    };
    out_.offload_optimizer = offloads("offload_optimizer_device");
    out_.offload_parameters = offloads("offload_param_device");
    out_.accumulation =
        number("gradient_accumulation_steps", section, "gradient_accumulation_steps");
    out_.strategy = fmt::format("DeepSpeed ZeRO-{}", out_.zero);
  }

  void read_fsdp() {
    const YAML::Node section = yaml_child(root_, "fsdp_config");
    std::string name = value("fsdp_sharding_strategy", section, "fsdp_sharding_strategy");
    const std::string reshards =
        value("fsdp_reshard_after_forward", section, "fsdp_reshard_after_forward");
    if (name.empty() && !reshards.empty()) {
      // FSDP 2 has a switch; the first version's names stand there too.
      name = is_true(reshards)            ? "full_shard"
             : lower(reshards) == "false" ? "shard_grad_op"
                                          : reshards;
    }
    AccelerateConfig shards = fsdp_of_trainer(name.empty() ? "full_shard" : name, out_.where);
    out_.zero = shards.zero;
    out_.strategy = shards.strategy;
    out_.notes.insert(out_.notes.end(), shards.notes.begin(), shards.notes.end());
    out_.offload_parameters = out_.offload_optimizer =
        is_true(value("fsdp_offload_params", section, "fsdp_offload_params"));
    out_.recomputes =
        is_true(value("fsdp_activation_checkpointing", section, "fsdp_activation_checkpointing"));
  }

  const ShellScript& script_;
  TrainerFlags options_;
  YAML::Node root_;
  AccelerateConfig out_;
};

}  // namespace

AccelerateConfig read_accelerate(const Launch& launch, const ShellScript& script) {
  return AccelerateReader(launch, script).read();
}

AccelerateConfig fsdp_of_trainer(const std::string& value, const SourceLine& where) {
  AccelerateConfig config;
  config.where = where;
  for (const std::string& word : split(lower(value), ' ')) {
    config.offload_parameters = config.offload_optimizer |= word == "offload";
    if (word == "true") {
      config.zero = 3;
      config.strategy = "FSDP full_shard";
    }
    for (const Strategy& strategy : kStrategies) {
      if (word != strategy.name && word != strategy.number) {
        continue;
      }
      config.zero = strategy.zero;
      config.strategy = fmt::format("FSDP {}", strategy.name);
      if (word.starts_with("hybrid") || strategy.number[0] > '3') {
        config.notes.push_back(
            {fmt::format("{} shards within a server: the estimate shards over all devices, and is "
                         "too low where there are several servers",
                         strategy.name),
             where});
      }
    }
  }
  if (config.strategy.empty()) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: FSDP's strategy is '{}', but must be full_shard, shard_grad_op, no_shard, "
                "hybrid_shard or hybrid_shard_zero2",
                where.text(), shortened(value, 60));
  }
  return config;
}

}  // namespace plait
