#include "plan/readers/llamafactory.h"

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/file.h"
#include "plan/readers/read_job.h"
#include "plan/readers/yaml_node.h"

namespace plait {
namespace {

constexpr size_t kMostBytes = 1 << 20;

std::vector<ShellWord> flags_of(const std::string& text, const std::string& origin) {
  if (text.size() > kMostBytes) {
    throw_error(ErrorCode::kCorruptData, "{}: is larger than 1 MiB: no configuration", origin);
  }
  std::vector<ShellWord> flags;
  try {
    for (const YAML::Node& document : yaml_documents(text)) {
      if (!document.IsMap()) {
        continue;
      }
      for (const auto& entry : document) {
        if (entry.first.IsScalar() && entry.second.IsScalar()) {
          flags.push_back({.text = "--" + entry.first.Scalar() + "=" + entry.second.Scalar(),
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

}  // namespace

bool is_llamafactory(const std::string& text) {
  const auto has = [&](const std::string& key) {
    return text.starts_with(key + ":") || text.find("\n" + key + ":") != std::string::npos;
  };
  return has("model_name_or_path") && (has("finetuning_type") || has("stage") || has("template"));
}

std::vector<ShellWord> llamafactory_flags(const Launch& launch, const std::string& origin) {
  std::vector<ShellWord> flags;
  std::string path;
  for (const ShellWord& word : launch.arguments) {
    const bool is_file = word.text.ends_with(".yaml") || word.text.ends_with(".yml");
    if (is_file && word.text.find('=') == std::string::npos) {
      path = word.text;
      continue;
    }
    ShellWord flag = word;
    flag.text = word.text.starts_with("--") ? word.text : "--" + word.text;
    flags.push_back(std::move(flag));
  }
  if (!path.empty()) {
    const std::string found = find_beside(path, origin);
    std::vector<ShellWord> written = flags_of(read_file(found), found);
    flags.insert(flags.end(), written.begin(), written.end());
  }
  return flags;
}

Launch llamafactory_launch(const std::string& text, const std::string& origin, int devices) {
  Launch launch;
  launch.launcher = "llamafactory-cli";
  launch.program = "llamafactory-cli train";
  launch.arguments = flags_of(text, origin);
  launch.world = devices;
  return launch;
}

}  // namespace plait
