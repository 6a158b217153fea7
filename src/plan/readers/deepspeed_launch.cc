// HF Trainer style programs (transformers, LlamaFactory, FastChat) that are started with a
// DeepSpeed configuration.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "plan/readers/deepspeed.h"
#include "plan/readers/deepspeed_reader.h"

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
    if (i + 1 < launch.arguments.size()) {
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

std::string config_name(const Launch& launch) {
  for (const std::string_view name : {"deepspeed", "deepspeed_config", "deepspeed_config_file"}) {
    ShellWord joined;
    const ShellWord* word = find_value(launch, name, joined);
    if (word != nullptr && word->known() && word->text.ends_with(".json")) {
      return word->text;
    }
  }
  return "";
}

}  // namespace

bool is_deepspeed_launch(const Launch& launch) {
  const bool megatron =
      std::any_of(launch.arguments.begin(), launch.arguments.end(), [](const ShellWord& word) {
        return word.text == "--num-layers" || word.text == "--tensor-model-parallel-size";
      });
  return !megatron && !config_name(launch).empty();
}

ReadJob read_deepspeed_launch(const Launch& launch, const ShellScript& script,
                              const ReadOptions& options) {
  const std::string name = config_name(launch);
  std::string text;
  std::string origin = script.origin;
  int first_line = 1;
  auto heredoc = script.files.find(name);
  if (heredoc == script.files.end()) {
    heredoc = script.files.find(std::filesystem::path(name).filename().string());
  }
  if (heredoc != script.files.end()) {
    text = heredoc->second.text;
    first_line = heredoc->second.line;
  } else {
    const std::filesystem::path beside =
        std::filesystem::path(script.origin).parent_path() / std::filesystem::path(name);
    const std::string path =
        std::filesystem::exists(name) || !std::filesystem::exists(beside) ? name : beside.string();
    text = read_file(path);
    origin = path;
  }
  DeepSpeedReader reader(text, origin, options, first_line);
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
  job.kind = "launch script with a DeepSpeed configuration";
  job.environment = launch.environment;
  const ShellWord* checkpointing = find_value(launch, "gradient_checkpointing", joined);
  if (checkpointing != nullptr && checkpointing->text != "False" &&
      checkpointing->text != "false") {
    job.job.layout.recompute = Recompute::kFull;
  }
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
