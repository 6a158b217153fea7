#include "checkpoint/sharded_checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/safetensors.h"
#include "parallel/logical_tensors.h"

namespace plait {
namespace {

constexpr int64_t kElement = dtype_size(DType::kF32);
// Elements that are copied and written at once.
constexpr int64_t kRunMax = 1 << 20;

DevicePtr device_state(ShardedAdamw& optimizer, StateKind kind, const ParamPiece& piece) {
  switch (kind) {
    case StateKind::kParam:
      return optimizer.master({piece.flat_begin, piece.shard_begin, piece.end - piece.begin}).ptr();
    case StateKind::kExpAvg:
      return optimizer.exp_avg().ptr() + piece.shard_begin * kElement;
    case StateKind::kExpAvgSq:
      return optimizer.exp_avg_sq().ptr() + piece.shard_begin * kElement;
  }
  return {};
}

// The values of this rank's pieces, from the device or from a copy in host memory.
class StateSource {
 public:
  StateSource(const TrainState& state, bool copy_now)
      : state_(state), pieces_(owned_pieces(state.store, state.optimizer, state.context)) {
    int64_t count = 0;
    for (const ParamPiece& piece : pieces_) {
      offsets_.push_back(count);
      count += piece.end - piece.begin;
    }
    if (copy_now) {
      copy_all(count);
    }
  }

  const std::vector<ParamPiece>& pieces() const { return pieces_; }

  // Calls use(values) with all elements of one piece, run by run.
  template <typename Use>
  void visit(StateKind kind, size_t index, const Use& use) {
    const int64_t count = pieces_[index].end - pieces_[index].begin;
    const auto& copy = copies_[static_cast<size_t>(kind)];
    Stream& stream = state_.store.device().stream();
    for (int64_t begin = 0; begin < count; begin += kRunMax) {
      const int64_t run = std::min(kRunMax, count - begin);
      const float* values = nullptr;
      if (copy != nullptr) {
        values = copy.get() + offsets_[index] + begin;
      } else {
        staging_.resize(static_cast<size_t>(kRunMax));
        stream.copy_to_host(staging_.data(),
                            device_state(state_.optimizer, kind, pieces_[index]) + begin * kElement,
                            run * kElement);
        stream.synchronize();
        values = staging_.data();
      }
      use(std::span<const float>(values, static_cast<size_t>(run)));
    }
  }

 private:
  void copy_all(int64_t count) {
    Stream& stream = state_.store.device().stream();
    for (const StateKind kind : kStateKinds) {
      auto& copy = copies_[static_cast<size_t>(kind)];
      copy = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(count));
      for (size_t i = 0; i < pieces_.size(); ++i) {
        stream.copy_to_host(copy.get() + offsets_[i],
                            device_state(state_.optimizer, kind, pieces_[i]),
                            (pieces_[i].end - pieces_[i].begin) * kElement);
      }
    }
    stream.synchronize();
  }

  TrainState state_;
  std::vector<ParamPiece> pieces_;
  std::vector<int64_t> offsets_;  // of the pieces in the copies
  std::array<std::unique_ptr<float[]>, kStateKinds.size()> copies_;
  std::vector<float> staging_;
};

// A part that is a whole shard keeps its shape, for people who look into the file.
std::vector<int64_t> tensor_shape(const ParamSpec& spec, const ShardPart& part) {
  if (part.count() == part.shard.count() && spec.shape.size() == 2) {
    return {part.shard.rows, part.shard.cols};
  }
  return {part.count()};
}

struct FileTarget {
  std::string path;
  int64_t step = 0;
};

RankRecords write_rank_file(StateSource& source, const FileTarget& target,
                            const std::atomic<bool>& cancelled) {
  RankRecords records;
  if (source.pieces().empty()) {
    return records;
  }
  std::vector<TensorDecl> tensors;
  for (const ParamPiece& piece : source.pieces()) {
    const ShardPart part{piece.shard, piece.begin, piece.end};
    records.pieces.push_back({.name = piece.spec->name, .part = part});
    for (const StateKind kind : kStateKinds) {
      tensors.push_back({.name = tensor_key(kind, piece.spec->name),
                         .dtype = DType::kF32,
                         .shape = tensor_shape(*piece.spec, part)});
    }
  }
  SafetensorsWriter writer(target.path, tensors, file_metadata(target.step));
  for (size_t i = 0; i < source.pieces().size(); ++i) {
    for (const StateKind kind : kStateKinds) {
      uint32_t& crc = records.pieces[i].crc32c[static_cast<size_t>(kind)];
      source.visit(kind, i, [&](std::span<const float> values) {
        throw_if_cancelled(cancelled);
        crc = crc32c(std::as_bytes(values), crc);
        writer.write(std::as_bytes(values));
      });
    }
  }
  writer.finish();
  records.files.push_back({.name = std::filesystem::path(target.path).filename().string(),
                           .bytes = writer.file_bytes(),
                           .crc32c = writer.crc32c()});
  return records;
}

Manifest make_manifest(const TrainState& state, const CheckpointMeta& meta,
                       const std::vector<std::string>& rank_records) {
  Manifest manifest;
  manifest.meta = meta;
  manifest.layout = to_string(state.context.layout());
  manifest.compute_dtype = dtype_name(state.store.weights().dtype());
  manifest.world_size = state.context.layout().world_size();
  manifest.model = state.model;
  for (const std::string& text : rank_records) {
    RankRecords records = decode_records(text);
    for (PieceRecord& piece : records.pieces) {
      piece.file += static_cast<int64_t>(manifest.files.size());
      manifest.pieces.push_back(std::move(piece));
    }
    manifest.files.insert(manifest.files.end(), records.files.begin(), records.files.end());
  }
  return manifest;
}

// Uploads the parts of one kind of moment.
void load_moment(const TrainState& state, StateKind kind, CheckpointReader& reader) {
  const FlatLayout& flat = state.store.flat();
  Tensor& moment =
      kind == StateKind::kExpAvg ? state.optimizer.exp_avg() : state.optimizer.exp_avg_sq();
  Stream& stream = state.store.device().stream();
  stream.zero(moment.ptr(), moment.bytes());
  std::vector<float> values;
  for (const StatePart& state_part : state_parts(flat, state.optimizer.owned())) {
    const RowCover cover = covering_rows(state_part.part);
    values.resize(static_cast<size_t>(cover.shard.count()));
    reader.read(state.store.table()[static_cast<size_t>(state_part.spec_index)], kind, cover.shard,
                values);
    stream.copy_to_device(moment.ptr() + state_part.state_offset * kElement,
                          values.data() + cover.skip, state_part.part.count() * kElement);
  }
}

CheckpointMeta load_on_this_rank(const TrainState& state, const std::string& folder,
                                 const LoadOptions& options, const std::atomic<bool>& cancelled) {
  CheckpointReader reader(folder);
  check_same_model(reader.manifest().model, state.model, folder);
  reader.check_files();
  state.optimizer.set_weights(
      state.store.build_image([&](const ParamSpec& spec, const Shard& shard, std::span<float> out) {
        throw_if_cancelled(cancelled);
        reader.read(spec, StateKind::kParam, shard, out);
      }));
  if (options.optimizer) {
    load_moment(state, StateKind::kExpAvg, reader);
    throw_if_cancelled(cancelled);
    load_moment(state, StateKind::kExpAvgSq, reader);
  }
  state.store.device().stream().synchronize();
  return reader.manifest().meta;
}

bool is_damage(ErrorCode code) {
  return code == ErrorCode::kCorruptData || code == ErrorCode::kNotFound || code == ErrorCode::kIo;
}

// Paths of the step folders, as rank 0 sees them.
std::vector<std::string> shared_listing(const ParallelContext& context,
                                        const std::string& directory) {
  std::string mine;
  run_together(context.all(), "looking for checkpoints", [&](const std::atomic<bool>&) {
    if (context.rank() == 0) {
      for (const CheckpointEntry& entry : list_checkpoints(directory)) {
        mine += entry.path + '\n';
      }
    }
  });
  const std::string all = context.all().gather_bytes(mine)[0];
  std::vector<std::string> paths;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = all.find('\n', begin);
    paths.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return paths;
}

}  // namespace

CheckpointSaver::CheckpointSaver(const TrainState& state, SaveOptions options)
    : state_(state), options_(std::move(options)) {}

CheckpointSaver::~CheckpointSaver() = default;

void CheckpointSaver::save(const CheckpointMeta& meta) {
  finish();
  meta_ = meta;
  state_.optimizer.wait_all();
  const ParallelContext& context = state_.context;
  run_together(context.all(), fmt::format("checkpoint of step {} was not saved", meta.step),
               [&](const std::atomic<bool>&) {
                 if (context.rank() == 0) {
                   prepare_temporary(options_.directory, meta.step);
                 }
               });
  auto source = std::make_shared<StateSource>(state_, options_.async);
  const FileTarget target{(std::filesystem::path(temporary_path(options_.directory, meta.step)) /
                           fmt::format("rank-{:05}.safetensors", context.rank()))
                              .string(),
                          meta.step};
  task_ = std::make_unique<BackgroundTask>(
      "checkpoint", [this, source, target](const std::atomic<bool>& cancelled) {
        records_ = write_rank_file(*source, target, cancelled);
      });
  if (!options_.async) {
    finish();
  }
}

bool CheckpointSaver::poll() {
  if (task_ == nullptr) {
    return true;
  }
  const GroupStatus status = exchange_status(state_.context.all(), *task_);
  if (!status.all_done) {
    return false;
  }
  complete(status);
  return true;
}

void CheckpointSaver::finish() {
  if (task_ != nullptr) {
    complete(wait_together(state_.context.all(), *task_));
  }
}

void CheckpointSaver::complete(const GroupStatus& status) {
  task_.reset();
  if (status.error) {
    fail(*status.error);
  }
  try {
    commit();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kComm) {
      throw;
    }
    fail(error);
  }
}

void CheckpointSaver::commit() {
  const ParallelContext& context = state_.context;
  const std::vector<std::string> all = context.all().gather_bytes(encode_records(records_));
  run_together(context.all(), "writing the manifest", [&](const std::atomic<bool>&) {
    if (context.rank() != 0) {
      return;
    }
    const std::filesystem::path folder = temporary_path(options_.directory, meta_.step);
    write_file_atomic((folder / kManifestName).string(),
                      manifest_text(make_manifest(state_, meta_, all)));
    commit_temporary(options_.directory, meta_.step);
    remove_old_checkpoints(options_.directory, meta_.step, options_.keep_last);
  });
  last_path_ = checkpoint_path(options_.directory, meta_.step);
}

void CheckpointSaver::fail(const Error& error) {
  const ParallelContext& context = state_.context;
  run_together(context.all(), "removing the temporary folder", [&](const std::atomic<bool>&) {
    if (context.rank() == 0) {
      remove_temporary(options_.directory, meta_.step);
    }
  });
  throw_error(error.code(),
              "checkpoint of step {} was not saved: {}; earlier checkpoints in '{}' are intact",
              meta_.step, error.message(), options_.directory);
}

void save_checkpoint(const TrainState& state, const SaveOptions& options,
                     const CheckpointMeta& meta) {
  SaveOptions now = options;
  now.async = false;
  CheckpointSaver(state, now).save(meta);
}

CheckpointMeta load_checkpoint(const TrainState& state, const std::string& folder,
                               const LoadOptions& options) {
  CheckpointMeta meta;
  state.optimizer.wait_all();
  run_together(state.context.all(), fmt::format("cannot load the checkpoint '{}'", folder),
               [&](const std::atomic<bool>& cancelled) {
                 meta = load_on_this_rank(state, folder, options, cancelled);
               });
  return meta;
}

std::optional<LoadedCheckpoint> load_latest(const TrainState& state, const std::string& directory,
                                            const LoadOptions& options) {
  std::string first_problem;
  for (const std::string& path : shared_listing(state.context, directory)) {
    try {
      return LoadedCheckpoint{path, load_checkpoint(state, path, options)};
    } catch (const Error& error) {
      if (!is_damage(error.code())) {
        throw;
      }
      if (state.context.rank() == 0) {
        log_warning(0, "{}; trying the checkpoint before it", error.message());
      }
      first_problem = first_problem.empty() ? error.message() : first_problem;
    }
  }
  if (!first_problem.empty()) {
    throw_error(ErrorCode::kCorruptData,
                "no checkpoint in '{}' can be used; the newest: {}; move the folder away to start "
                "anew",
                directory, first_problem);
  }
  return std::nullopt;
}

}  // namespace plait
