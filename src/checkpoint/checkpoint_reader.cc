#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"

namespace plait {

CheckpointReader::CheckpointReader(const std::string& folder)
    : folder_(folder), manifest_(read_manifest(folder)) {
  files_.resize(manifest_.files.size());
  verified_.resize(manifest_.pieces.size());
  for (size_t i = 0; i < manifest_.pieces.size(); ++i) {
    pieces_by_name_[manifest_.pieces[i].name].push_back(i);
  }
}

void CheckpointReader::read(const ParamSpec& spec, StateKind kind, const Shard& target,
                            std::span<float> out) {
  CHECK_EQ(static_cast<int64_t>(out.size()), target.count());
  Shard wanted = target;
  wanted.rows = std::clamp<int64_t>(spec.shape[0] - target.row_begin, 0, target.rows);
  std::ranges::fill(out.subspan(static_cast<size_t>(wanted.count())), 0.0F);
  const auto found = pieces_by_name_.find(spec.name);
  CHECK(found != pieces_by_name_.end());
  int64_t copied = 0;
  for (const size_t index : found->second) {
    const ShardPart& part = manifest_.pieces[index].part;
    if (count_overlap(part, wanted) > 0) {
      copied += copy_overlap(part, piece_bytes(index, kind), wanted, out);
    }
  }
  // The manifest's pieces cover every parameter once (parse_manifest).
  CHECK_EQ(copied, wanted.count());
}

void CheckpointReader::check_files() const {
  for (const FileRecord& file : manifest_.files) {
    check_size(file);
  }
}

void CheckpointReader::verify() {
  check_files();
  for (size_t i = 0; i < manifest_.pieces.size(); ++i) {
    for (const StateKind kind : kStateKinds) {
      piece_bytes(i, kind);
    }
  }
  for (size_t i = 0; i < manifest_.files.size(); ++i) {
    const FileRecord& file = manifest_.files[i];
    const uint32_t actual = crc32c(open(static_cast<int64_t>(i)).bytes());
    if (actual != file.crc32c) {
      throw_error(ErrorCode::kCorruptData,
                  "{}: byte 0: the header before the tensors is damaged (checksum of the file "
                  "{:08x}, must be {:08x})",
                  path_of(file), actual, file.crc32c);
    }
  }
}

std::string CheckpointReader::path_of(const FileRecord& file) const {
  return (std::filesystem::path(folder_) / file.name).string();
}

void CheckpointReader::check_size(const FileRecord& file) const {
  const std::string path = path_of(file);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw_error(ErrorCode::kNotFound, "{}: this file of the checkpoint is missing", path);
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw_error(ErrorCode::kCorruptData, "{}: this is no regular file", path);
  }
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (!error && bytes != file.bytes) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: the file {}, it must have {} bytes; use another checkpoint", path,
                std::min(bytes, file.bytes), bytes < file.bytes ? "ends here" : "goes on",
                file.bytes);
  }
}

SafetensorsFile& CheckpointReader::open(int64_t file) {
  std::unique_ptr<SafetensorsFile>& slot = files_[static_cast<size_t>(file)];
  if (slot == nullptr) {
    const FileRecord& record = manifest_.files[static_cast<size_t>(file)];
    check_size(record);
    auto opened = std::make_unique<SafetensorsFile>(path_of(record));
    const std::map<std::string, std::string> needed = file_metadata(manifest_.meta.step);
    if (opened->metadata() != needed) {
      const auto step = opened->metadata().find("step");
      throw_error(ErrorCode::kCorruptData,
                  "{}: byte 8: this file belongs to another checkpoint (step {}, must be {})",
                  opened->path(), step == opened->metadata().end() ? "missing" : step->second,
                  manifest_.meta.step);
    }
    slot = std::move(opened);
  }
  return *slot;
}

std::span<const std::byte> CheckpointReader::piece_bytes(size_t piece_index, StateKind kind) {
  const PieceRecord& piece = manifest_.pieces[piece_index];
  const auto k = static_cast<size_t>(kind);
  const SafeTensor& tensor = open(piece.file).at(tensor_key(kind, piece.name));
  if (verified_[piece_index][k]) {
    return tensor.bytes;
  }
  if (tensor.dtype != DType::kF32 || tensor.count() != piece.part.count()) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: tensor '{}' has {} elements of {}, the manifest says {} of F32",
                tensor.file, tensor.file_offset, tensor.name, tensor.count(), tensor.dtype_text,
                piece.part.count());
  }
  const uint32_t actual = crc32c(tensor.bytes);
  if (actual != piece.crc32c[k]) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: tensor '{}' ({}) is damaged: checksum {:08x}, must be {:08x}; use "
                "another checkpoint",
                tensor.file, tensor.file_offset, tensor.name, format_bytes(tensor.count() * 4),
                actual, piece.crc32c[k]);
  }
  verified_[piece_index][k] = true;
  return tensor.bytes;
}

std::map<std::string, std::string> file_metadata(int64_t step) {
  return {{"format", "plait-checkpoint"}, {"step", std::to_string(step)}};
}

}  // namespace plait
