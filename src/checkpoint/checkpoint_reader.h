// Reads a checkpoint folder under any layout: the values of any rectangle of any parameter, put
// together from the pieces that the saving ranks wrote. Nothing but the requested pieces is read.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace plait {

// Files are mapped when first needed; a tensor's checksum is verified when it is first read. Used
// by one thread at a time.
class CheckpointReader {
 public:
  // Reads the manifest only. Errors: as read_manifest.
  explicit CheckpointReader(const std::string& folder);

  const Manifest& manifest() const { return manifest_; }
  const std::string& folder() const { return folder_; }

  // The elements of `target`, in padded coordinates of any padding, row-major; rows beyond
  // spec.shape[0] become zero. Requires: `spec` is of the checkpoint's model (check_same_model).
  // Errors: kCorruptData naming file, tensor and byte offset; kNotFound naming a missing file.
  void read(const ParamSpec& spec, StateKind kind, const Shard& target, std::span<float> out);

  // Whether all files are there with the size that the manifest states; cheap.
  // Errors: kNotFound, kCorruptData naming file and, if it is too short, the offset of its end.
  void check_files() const;

  // check_files(), and every byte of every file against the checksums. Errors: as read().
  void verify();

 private:
  SafetensorsFile& open(int64_t file);
  // The tensor's bytes, verified.
  std::span<const std::byte> piece_bytes(size_t piece_index, StateKind kind);
  std::string path_of(const FileRecord& file) const;
  void check_size(const FileRecord& file) const;

  std::string folder_;
  Manifest manifest_;
  std::unordered_map<std::string_view, std::vector<size_t>> pieces_by_name_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<std::array<bool, kStateKinds.size()>> verified_;  // as manifest_.pieces
};

// Metadata of a checkpoint's safetensors files: {"format": "plait-checkpoint", "step": "100"}.
std::map<std::string, std::string> file_metadata(int64_t step);

}  // namespace plait
