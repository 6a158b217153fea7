#include "serve/served_model.h"

#include <filesystem>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/gguf_import.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/manifest.h"

namespace plait {
namespace {

constexpr const char* kWanted = "give an HF model directory, a GGUF file or a run of plait train";

namespace fs = std::filesystem;

// The folder with a manifest that `path` means, or empty.
std::string find_checkpoint(const std::string& path) {
  std::error_code ignored;
  if (fs::exists(fs::path(path) / kManifestName, ignored)) {
    return path;
  }
  for (const std::string& folder : {path, path + "/checkpoints"}) {
    if (const auto entry = find_latest_valid(folder)) {
      return entry->path;
    }
  }
  return "";
}

ServedModel open_checkpoint(const std::string& folder) {
  struct Shared {
    explicit Shared(const std::string& path) : reader(path) {}
    std::mutex mutex;
    CheckpointReader reader;
  };
  const auto shared = std::make_shared<Shared>(folder);
  shared->reader.check_files();
  ServedModel model;
  model.path = folder;
  model.config = shared->reader.manifest().model;
  check_trainable(model.config, folder);
  model.source = [shared](const ParamSpec& spec, const Shard& shard, std::span<float> out) {
    const std::scoped_lock lock(shared->mutex);
    shared->reader.read(spec, StateKind::kParam, shard, out);
  };
  return model;
}

}  // namespace

ServedModel open_served_model(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw_error(ErrorCode::kNotFound, "'{}' does not exist; {}", path, kWanted);
  }
  ServedModel model;
  model.path = path;
  if (!fs::is_directory(path, ignored)) {
    if (!fs::is_regular_file(path, ignored) || !is_gguf_file(path)) {
      throw_error(ErrorCode::kInvalidArgument, "'{}' is no folder and no GGUF file; {}", path,
                  kWanted);
    }
    GgufImport import = open_gguf_weights(path);
    model.config = import.config;
    model.source = std::move(import.source);
    model.unused = std::move(import.unused);
    model.file_dtype = import.matrix_dtype;
    return model;
  }
  if (const std::string folder = find_checkpoint(path); !folder.empty()) {
    return open_checkpoint(folder);
  }
  if (!fs::exists(fs::path(path) / "config.json", ignored)) {
    throw_error(ErrorCode::kNotFound, "the folder '{}' holds no config.json and no checkpoint; {}",
                path, kWanted);
  }
  model.config = load_model_config(path);
  HfImport import = open_hf_weights(path, model.config);
  model.source = std::move(import.source);
  model.unused = std::move(import.unused);
  model.file_dtype = import.matrix_dtype;
  return model;
}

}  // namespace plait
