#include "checkpoint/hf_weights.h"

#include <filesystem>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"

namespace plait {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// weight_map of an index: tensor name to file name. Parsed with a callback because a document tree
// would keep the last of two equal names without a word.
std::map<std::string, std::string> read_weight_map(const std::string& path) {
  static constexpr int kDepthMax = 16;
  std::unordered_set<std::string> names;
  bool in_map = false;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (depth > kDepthMax) {
      throw_error(ErrorCode::kCorruptData, "{}: nested deeper than {} levels", path, kDepthMax);
    }
    if (event == nlohmann::json::parse_event_t::key) {
      if (depth == 1) {
        in_map = value == "weight_map";
      } else if (depth == 2 && in_map && !names.insert(value.get<std::string>()).second) {
        throw_error(ErrorCode::kCorruptData, "{}: tensor {} is listed twice", path, value.dump());
      }
    }
    return true;
  };
  using Object = nlohmann::json::object_t;
  const std::string text = read_file(path);
  std::map<std::string, std::string> map;
  try {
    const nlohmann::json json = nlohmann::json::parse(text, watch);
    for (const auto& [name, file] : json.at("weight_map").get_ref<const Object&>()) {
      map.emplace(name, file.get<std::string>());
    }
  } catch (const nlohmann::json::parse_error& error) {
    throw_error(ErrorCode::kCorruptData, "{}: byte {}: not valid JSON ({})", path, error.byte,
                error.what());
  } catch (const nlohmann::json::exception& error) {
    throw_error(ErrorCode::kCorruptData,
                "{}: needs an object weight_map from tensor names to file names ({})", path,
                error.what());
  }
  return map;
}

}  // namespace

HfWeights::HfWeights(const std::string& directory) {
  const std::filesystem::path folder(directory);
  if (path_exists(folder / kSingleFile)) {
    source_ = (folder / kSingleFile).string();
    files_.push_back(std::make_unique<SafetensorsFile>(source_));
    for (const SafeTensor& tensor : files_.front()->tensors()) {
      tensors_.emplace(tensor.name, &tensor);
    }
    return;
  }
  if (!path_exists(folder / kIndexFile)) {
    throw_error(ErrorCode::kNotFound,
                "'{}' has neither {} nor {}; an HF model directory with safetensors weights is "
                "needed",
                directory, kSingleFile, kIndexFile);
  }
  open_index(directory);
}

void HfWeights::open_index(const std::string& directory) {
  const std::filesystem::path folder(directory);
  source_ = (folder / kIndexFile).string();
  const std::map<std::string, std::string> weight_map = read_weight_map(source_);
  std::map<std::string, const SafetensorsFile*> shards;
  for (const auto& [name, file] : weight_map) {
    if (shards.contains(file)) {
      continue;
    }
    if (file.empty() || file == ".." || file.find('/') != std::string::npos ||
        file.find('\0') != std::string::npos) {
      throw_error(ErrorCode::kCorruptData, "{}: '{}' is no plain file name (tensor '{}')", source_,
                  file, name);
    }
    if (!path_exists(folder / file)) {
      throw_error(ErrorCode::kNotFound, "{}: shard '{}' (tensor '{}') is missing; fetch it again",
                  source_, file, name);
    }
    files_.push_back(std::make_unique<SafetensorsFile>((folder / file).string()));
    shards.emplace(file, files_.back().get());
  }
  for (const auto& [name, file] : weight_map) {
    const SafeTensor* tensor = shards.at(file)->find(name);
    if (tensor == nullptr) {
      throw_error(ErrorCode::kCorruptData, "{}: tensor '{}' should be in '{}', but is not there",
                  source_, name, file);
    }
    tensors_.emplace(name, tensor);
  }
  for (const auto& [file, shard] : shards) {
    for (const SafeTensor& tensor : shard->tensors()) {
      const auto listed = weight_map.find(tensor.name);
      if (listed == weight_map.end() || listed->second != file) {
        throw_error(ErrorCode::kCorruptData, "{}: tensor '{}' of '{}' is {}", source_, tensor.name,
                    file,
                    listed == weight_map.end() ? "not listed"
                                               : "listed for '" + listed->second +
                                                     "', which has "
                                                     "it too");
      }
    }
  }
}

const SafeTensor* HfWeights::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

const SafeTensor& HfWeights::at(const std::string& name) const {
  const SafeTensor* tensor = find(name);
  if (tensor == nullptr) {
    throw_error(ErrorCode::kCorruptData, "{}: tensor '{}' is missing; there are {} tensors",
                source_, name, tensors_.size());
  }
  return *tensor;
}

std::vector<std::string> HfWeights::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, tensor] : tensors_) {
    names.push_back(name);
  }
  return names;
}

}  // namespace plait
