#include "plan/readers/trainer_flags.h"

#include <algorithm>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/text.h"
#include "plan/readers/flag_set.h"
#include "plan/readers/yaml_node.h"

namespace plait {
namespace {

// `name` if the word is this flag: "--per-device-train-batch-size=1".
bool is_flag(std::string_view text, std::string_view name) {
  if (!text.starts_with("--")) {
    return false;
  }
  text =
      text.substr(2, text.find('=') == std::string_view::npos ? text.size() : text.find('=') - 2);
  return std::equal(text.begin(), text.end(), name.begin(), name.end(),
                    [](char a, char b) { return (a == '-' ? '_' : a) == b; });
}

}  // namespace

void TrainerFlags::add(std::vector<ShellWord> words, std::string origin) {
  sources_.push_back({std::move(words), std::move(origin)});
}

std::optional<TrainerFlag> TrainerFlags::look_up(std::string_view name, bool may_be_bare) const {
  for (const Source& source : sources_) {
    for (size_t i = source.words.size(); i-- > 0;) {
      const ShellWord& flag = source.words[i];
      if (!is_flag(flag.text, name)) {
        continue;
      }
      const size_t equals = flag.text.find('=');
      const bool is_last = i + 1 == source.words.size();
      ShellWord value = flag;
      if (equals != std::string::npos) {
        value.text = flag.text.substr(equals + 1);
      } else if (!is_last && !source.words[i + 1].text.starts_with("--")) {
        value = source.words[i + 1];
      } else if (may_be_bare) {
        value.text = "True";
      } else {
        continue;
      }
      return TrainerFlag{value, {source.origin, value.line}};
    }
  }
  return std::nullopt;
}

std::optional<TrainerFlag> TrainerFlags::find(std::string_view name) const {
  return look_up(name, false);
}

std::optional<bool> TrainerFlags::find_switch(std::string_view name) const {
  const auto flag = look_up(name, true);
  if (!flag) {
    return std::nullopt;
  }
  const std::string text = lower(flag->word.text);
  return text != "false" && text != "0" && text != "no" && text != "off" && !text.empty();
}

int64_t TrainerFlags::find_size(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    const auto flag = find(name);
    if (!flag || flag->word.text == "0" || lower(flag->word.text) == "none") {
      continue;
    }
    if (!flag->word.known()) {
      throw_error(ErrorCode::kInvalidArgument, "{}: the value of --{} is not known: {}",
                  flag->where.text(), name, flag->word.unknown);
    }
    const auto number = parse_integer(flag->word.text);
    if (!number || *number < 1 || *number > (int64_t{1} << 31)) {
      throw_error(ErrorCode::kInvalidArgument, "{}: --{} is {}, but must be 1 to 2^31",
                  flag->where.text(), name, flag->word.text.substr(0, 40));
    }
    return *number;
  }
  return 0;
}

std::vector<ShellWord> yaml_flags(const std::string& text, const std::string& origin) {
  constexpr size_t kMostBytes = 1 << 20;
  if (text.size() > kMostBytes) {
    throw_error(ErrorCode::kCorruptData, "{}: is larger than 1 MiB: no configuration", origin);
  }
  std::vector<ShellWord> flags;
  size_t taken = 0;  // aliases repeat a text without end
  try {
    for (const YAML::Node& document : yaml_documents(text)) {
      if (!document.IsMap()) {
        continue;
      }
      for (const auto& entry : document) {
        // Lists as a program takes them on its command line: "fsdp: [full_shard, offload]".
        std::string value = entry.second.IsScalar() ? entry.second.Scalar() : "";
        constexpr size_t kMostItems = 64;
        for (size_t i = 0; entry.second.IsSequence() && i < entry.second.size() && i < kMostItems;
             ++i) {
          const YAML::Node item = entry.second[i];
          value += (value.empty() ? "" : " ") + (item.IsScalar() ? item.Scalar() : "");
          taken += value.size();
        }
        if (entry.first.IsScalar() && !entry.second.IsMap()) {
          taken += entry.first.Scalar().size() + value.size();
          if (taken > 4 * kMostBytes) {
            throw_error(ErrorCode::kCorruptData, "{}: its values take more than 4 MiB", origin);
          }
          flags.push_back({.text = "--" + entry.first.Scalar() + "=" + value,
                           .line = entry.first.Mark().line + 1,
                           .unknown = {}});
        }
      }
    }
  } catch (const YAML::Exception& error) {
    throw_yaml_error(origin, error);
  }
  return flags;
}

TrainerYaml trainer_yaml_kind(const std::string& text) {
  const auto has = [&](const std::string& key) {
    return text.starts_with(key + ":") || text.find("\n" + key + ":") != std::string::npos;
  };
  if (has("model_name_or_path") && (has("finetuning_type") || has("stage") || has("template"))) {
    return TrainerYaml::kLlamaFactory;
  }
  if (has("per_device_train_batch_size")) {
    return TrainerYaml::kTrainer;
  }
  return has("compute_environment") || has("distributed_type") ? TrainerYaml::kAccelerate
                                                               : TrainerYaml::kNone;
}

}  // namespace plait
