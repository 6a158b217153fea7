// The folder that holds a run's checkpoints: DIR/step-00000100/. A checkpoint is written to
// DIR/.tmp-step-00000100/ and renamed when it is whole. One run writes to a folder at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plait {

struct CheckpointEntry {
  std::string path;
  int64_t step = 0;
  // Why it cannot be used, empty if its manifest is valid and its files are there in full. Data is
  // not read: a damaged tensor is found by loading (or CheckpointReader::verify()).
  std::string problem;
};

// All step folders, the newest (highest step) first; empty if `directory` does not exist.
// Errors: kIo.
std::vector<CheckpointEntry> list_checkpoints(const std::string& directory);

// The newest one without a problem. Logs a warning for each newer one that is skipped.
std::optional<CheckpointEntry> find_latest_valid(const std::string& directory);

// DIR/step-N and the name it has until it is whole.
std::string checkpoint_path(const std::string& directory, int64_t step);
std::string temporary_path(const std::string& directory, int64_t step);

// Makes an empty temporary folder (and DIR) and removes what interrupted runs left in DIR.
// Errors: kIo, kResourceExhausted, kInvalidArgument if DIR is a file.
void prepare_temporary(const std::string& directory, int64_t step);
// Removes the temporary folder; never throws.
void remove_temporary(const std::string& directory, int64_t step) noexcept;

// Gives the temporary folder its final name; an older checkpoint of the same step is replaced and
// never missing in between where the file system can exchange names. Returns the path.
// Errors: kIo, kResourceExhausted.
std::string commit_temporary(const std::string& directory, int64_t step);

// Removes whole checkpoints of lower steps than `newest` so that `keep_last` remain, `newest`
// included. 0 keeps all. Damaged ones are neither counted nor touched. Logs a warning where one
// cannot be removed.
void remove_old_checkpoints(const std::string& directory, int64_t newest, int keep_last);

}  // namespace plait
