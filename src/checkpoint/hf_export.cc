#include "checkpoint/hf_export.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/safetensors.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

// Removes an unfinished folder.
class FolderGuard {
 public:
  explicit FolderGuard(fs::path path) : path_(std::move(path)) {}
  FolderGuard(const FolderGuard&) = delete;
  FolderGuard& operator=(const FolderGuard&) = delete;
  ~FolderGuard() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

 private:
  fs::path path_;
};

std::string json_text(const Json& json) {
  return dump_json(json, 2) + "\n";
}

// The parameters of each file, in model order.
std::vector<std::vector<ParamSpec>> plan_files(const ModelConfig& model,
                                               const HfExportOptions& options) {
  std::vector<std::vector<ParamSpec>> files(1);
  int64_t bytes = 0;
  for (const ParamSpec& spec : make_parameter_table(model, {})) {
    const int64_t more = spec.count() * dtype_size(options.dtype);
    if (bytes > 0 && bytes + more > options.shard_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().push_back(spec);
    bytes += more;
  }
  return files;
}

void write_values(SafetensorsWriter& writer, const std::vector<float>& values, DType dtype) {
  if (dtype == DType::kF32) {
    writer.write(std::as_bytes(std::span(values)));
    return;
  }
  std::vector<BFloat16> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    rounded[i] = to_bf16(values[i]);
  }
  writer.write(std::as_bytes(std::span(rounded)));
}

void write_weights(CheckpointReader& reader, const std::vector<ParamSpec>& specs, DType dtype,
                   const std::string& path) {
  std::vector<TensorDecl> tensors;
  tensors.reserve(specs.size());
  for (const ParamSpec& spec : specs) {
    tensors.push_back({.name = spec.name, .dtype = dtype, .shape = spec.shape});
  }
  SafetensorsWriter writer(path, tensors, {{"format", "pt"}});
  std::vector<float> values;
  for (const ParamSpec& spec : specs) {
    values.resize(static_cast<size_t>(spec.count()));
    reader.read(spec, StateKind::kParam,
                {.row_begin = 0, .rows = spec.shape[0], .col_begin = 0, .cols = spec.cols()},
                values);
    write_values(writer, values, dtype);
  }
  writer.finish();
}

void write_model_files(CheckpointReader& reader, const HfExportOptions& options,
                       const fs::path& folder) {
  const std::vector<std::vector<ParamSpec>> files = plan_files(reader.manifest().model, options);
  if (files.size() == 1) {
    write_weights(reader, files[0], options.dtype, (folder / "model.safetensors").string());
    return;
  }
  Json weight_map = Json::object();
  int64_t total = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
    write_weights(reader, files[i], options.dtype, (folder / name).string());
    for (const ParamSpec& spec : files[i]) {
      weight_map[spec.name] = name;
      total += spec.count() * dtype_size(options.dtype);
    }
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  write_file_atomic((folder / "model.safetensors.index.json").string(), json_text(index));
}

void write_configs(const ModelConfig& model, const HfExportOptions& options,
                   const fs::path& folder) {
  const std::string dtype = options.dtype == DType::kF32 ? "float32" : "bfloat16";
  write_file_atomic((folder / "config.json").string(), json_text(to_hf_config(model, dtype)));
  Json generation = {{"_from_model_config", true}};
  if (model.bos_token_id >= 0) {
    generation["bos_token_id"] = model.bos_token_id;
  }
  if (model.eos_token_id >= 0) {
    generation["eos_token_id"] = model.eos_token_id;
  }
  write_file_atomic((folder / "generation_config.json").string(), json_text(generation));
}

}  // namespace

void export_hf(const HfExportOptions& options) {
  if (options.dtype != DType::kF32 && options.dtype != DType::kBF16) {
    throw_error(ErrorCode::kInvalidArgument, "export type {} is not supported; use f32 or bf16",
                dtype_name(options.dtype));
  }
  CheckpointReader reader(options.checkpoint);
  reader.check_files();
  fs::path output = fs::path(options.output).lexically_normal();
  if (!output.has_filename()) {
    output = output.parent_path();  // "folder/"
  }
  std::error_code error;
  const bool exists = fs::exists(output, error);
  if (exists && (!fs::is_directory(output, error) || !fs::is_empty(output, error) || error)) {
    throw_error(ErrorCode::kInvalidArgument, "'{}' is no empty folder; give the name of a new one",
                output.string());
  }
  fs::path temporary = output;
  temporary += ".tmp-export";
  const FolderGuard guard(temporary);
  fs::remove_all(temporary, error);
  fs::create_directories(temporary, error);
  if (error) {
    errno = error.value();
    throw_errno("create the folder", temporary.string());
  }
  write_model_files(reader, options, temporary);
  write_configs(reader.manifest().model, options, temporary);
  if (std::rename(temporary.c_str(), output.c_str()) != 0) {
    throw_errno("rename into place", output.string());
  }
  sync_directory(output.parent_path().string());
}

}  // namespace plait
