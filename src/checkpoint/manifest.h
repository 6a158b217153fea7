// The manifest of a training checkpoint: what was saved, under which layout, in which files
// (docs/checkpoints.md). It is written last: a folder with a valid manifest is a whole checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/reshard.h"
#include "spec/model_config.h"

namespace plait {

// Where a run stands. Nothing here is interpreted by checkpoints.
struct CheckpointMeta {
  int64_t step = 0;  // optimizer steps done; names the folder
  int64_t tokens_seen = 0;
  uint64_t seed = 0;
  std::string extra = "{}";  // the caller's JSON: data position, schedule, ...
};

// What is saved of each parameter, all f32: the master value and AdamW's moments.
enum class StateKind : uint8_t { kParam, kExpAvg, kExpAvgSq };
constexpr std::array kStateKinds = {StateKind::kParam, StateKind::kExpAvg, StateKind::kExpAvgSq};
// "param", "exp_avg", "exp_avg_sq".
const char* state_name(StateKind kind);
// The tensor of a piece in its file: "exp_avg:model.norm.weight".
std::string tensor_key(StateKind kind, const std::string& parameter);

// One file of the folder.
struct FileRecord {
  std::string name;  // no folder in it
  int64_t bytes = 0;
  uint32_t crc32c = 0;
};

// Part of one parameter, held by one file as three tensors (one a StateKind).
struct PieceRecord {
  std::string name;                                   // of the parameter
  ShardPart part;                                     // in the coordinates of the padded parameter
  int64_t file = 0;                                   // into Manifest::files
  std::array<uint32_t, kStateKinds.size()> crc32c{};  // of each tensor's bytes
};

struct Manifest {
  CheckpointMeta meta;
  std::string layout;         // as to_string(Layout); for people, loading does not need it
  std::string compute_dtype;  // "f32", "bf16"
  int64_t world_size = 1;
  ModelConfig model;
  std::vector<FileRecord> files;
  std::vector<PieceRecord> pieces;
};

// The file's text, which ends with a checksum of itself.
// Errors: kInvalidArgument if meta.extra is no JSON.
std::string manifest_text(const Manifest& manifest);

// Checks form, types, numbers, the checksum, and that the pieces make up every parameter of the
// model exactly once. Errors: kCorruptData naming `origin` and byte offset or key;
// kNotImplemented for a newer version.
Manifest parse_manifest(const std::string& text, const std::string& origin);

// FOLDER/manifest.json. Errors: as parse_manifest; kNotFound.
constexpr const char* kManifestName = "manifest.json";
Manifest read_manifest(const std::string& folder);

// Files and pieces of one rank for the exchange between ranks. `file` of the pieces counts from 0.
struct RankRecords {
  std::vector<FileRecord> files;
  std::vector<PieceRecord> pieces;
};
std::string encode_records(const RankRecords& records);
RankRecords decode_records(const std::string& text);

// Errors: kInvalidArgument naming the first key in which the model of a checkpoint (`saved`, read
// from `origin`) differs from the one of this run so that the weights would not fit or would mean
// something else.
void check_same_model(const ModelConfig& saved, const ModelConfig& expected,
                      const std::string& origin);

}  // namespace plait
