// Checkpoints of training: every rank writes the parameters and AdamW states that it owns, and any
// layout reads them back (docs/checkpoints.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/background_task.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/manifest.h"
#include "parallel/parallel_context.h"
#include "parallel/parameter_store.h"
#include "parallel/zero/sharded_adamw.h"

namespace plait {

// What a checkpoint holds, on one rank. Refers to its parts.
struct TrainState {
  ParameterStore& store;
  ShardedAdamw& optimizer;
  const ParallelContext& context;
  const ModelConfig& model;
};

struct SaveOptions {
  std::string directory;  // of all checkpoints of the run, on a file system that all ranks share
  int keep_last = 0;      // whole checkpoints that remain after a save; 0: all
  // save() returns after copying the state to host memory (12 bytes an owned parameter); threads
  // write the files while training goes on.
  bool async = false;
};

// Saves again and again. Every member function but the destructor and busy() is collective over the
// world and has the same outcome on every rank: if one rank cannot write (a full disk), all throw
// the same error, naming rank, file and reason, with that rank's code (kResourceExhausted, kIo,
// kNotFound for a folder that a host does not see); the temporary folder is gone, all earlier
// checkpoints are as they were, and training may go on.
class CheckpointSaver {
 public:
  // `state` and what it refers to must outlive the saver. Not collective.
  CheckpointSaver(const TrainState& state, SaveOptions options);
  // Drops a save that is not finished.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Saves between two steps; an earlier checkpoint of the same step is replaced. Without `async` it
  // is on disk when this returns. With `async` the save before it is finished first. meta must be
  // the same on all ranks.
  void save(const CheckpointMeta& meta);

  // Async: call it at every step boundary, on all ranks. Costs one exchange of a few bytes while a
  // save is under way, nothing otherwise. Gives a written checkpoint its name. True: no save is
  // under way any more. Errors: of the save, as above.
  bool poll();

  // Waits for the save under way, if any. Call it before the end of the run.
  void finish();

  bool busy() const { return task_ != nullptr; }
  // Of the newest checkpoint that this saver completed; empty before.
  const std::string& last_path() const { return last_path_; }

 private:
  void complete(const GroupStatus& status);
  void commit();
  [[noreturn]] void fail(const Error& error);

  TrainState state_;
  SaveOptions options_;
  CheckpointMeta meta_;  // of the save under way
  RankRecords records_;  // written by the task, read once it is done
  std::unique_ptr<BackgroundTask> task_;
  std::string last_path_;
};

// One save. Collective; errors as CheckpointSaver.
void save_checkpoint(const TrainState& state, const SaveOptions& options,
                     const CheckpointMeta& meta);

struct LoadOptions {
  bool optimizer = true;  // AdamW's moments too
};

// Loads the checkpoint in `folder` (.../step-00000100), saved under any layout, precision, vocab
// padding or bucket size. Values come back bit by bit; weights in compute precision are rounded
// from them. Collective over the world; all ranks return the same meta or throw the same error,
// after which the state is undefined. Errors: kNotFound, kCorruptData (naming file and offset),
// kInvalidArgument for a checkpoint of another model (naming the key), kNotImplemented.
CheckpointMeta load_checkpoint(const TrainState& state, const std::string& folder,
                               const LoadOptions& options = {});

struct LoadedCheckpoint {
  std::string path;
  CheckpointMeta meta;
};
// Loads the newest usable checkpoint of a run: those that are torn, damaged or unreadable are
// skipped with a warning. None there: nothing happens, no value. Collective. Errors: as
// load_checkpoint; kCorruptData if there are some but none can be used.
std::optional<LoadedCheckpoint> load_latest(const TrainState& state, const std::string& directory,
                                            const LoadOptions& options = {});

}  // namespace plait
