#include "checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/checkpoint_reader.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTemporaryPrefix = ".tmp-step-";
constexpr std::string_view kTrashPrefix = ".trash-step-";

fs::path path_of(const std::string& directory, std::string_view prefix, int64_t step) {
  return fs::path(directory) / fmt::format("{}{:08}", prefix, step);
}

std::optional<int64_t> parse_step(const std::string& name) {
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || rest != end || step < 0) {
    return std::nullopt;
  }
  return step;
}

std::string find_problem(const std::string& path, int64_t step) {
  try {
    const CheckpointReader reader(path);
    reader.check_files();
    const int64_t stored = reader.manifest().meta.step;
    if (stored != step) {
      return fmt::format("'{}' holds step {}", path, stored);
    }
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

// Steps of all step folders, the highest first.
std::vector<int64_t> list_steps(const std::string& directory) {
  std::vector<int64_t> steps;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) {
    return steps;
  }
  const fs::directory_iterator end;
  while (!error && entry != end) {
    std::error_code ignored;
    const std::optional<int64_t> step = parse_step(entry->path().filename().string());
    if (step && entry->is_directory(ignored) &&
        entry->path() == path_of(directory, kPrefix, *step)) {
      steps.push_back(*step);
    }
    entry.increment(error);
  }
  if (error) {
    throw_error(ErrorCode::kIo, "cannot read the folder '{}': {}", directory, error.message());
  }
  std::ranges::sort(steps, std::greater<>());
  return steps;
}

// In two steps, so that an interrupted removal never leaves half a checkpoint under a valid name.
void move_to_trash_and_remove(const fs::path& path, const fs::path& trash) {
  std::error_code error;
  fs::remove_all(trash, error);
  fs::rename(path, trash, error);
  if (!error) {
    fs::remove_all(trash, error);
  }
  if (error) {
    log_warning(-1, "cannot remove the old checkpoint '{}': {}", path.string(), error.message());
  }
}

void remove_leftovers(const std::string& directory) {
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kTemporaryPrefix) || name.starts_with(kTrashPrefix)) {
      leftovers.push_back(entry->path());
    }
  }
  for (const fs::path& path : leftovers) {
    fs::remove_all(path, error);
  }
}

}  // namespace

std::vector<CheckpointEntry> list_checkpoints(const std::string& directory) {
  std::vector<CheckpointEntry> entries;
  for (const int64_t step : list_steps(directory)) {
    const std::string path = checkpoint_path(directory, step);
    entries.push_back({path, step, find_problem(path, step)});
  }
  return entries;
}

std::optional<CheckpointEntry> find_latest_valid(const std::string& directory) {
  for (const int64_t step : list_steps(directory)) {
    const std::string path = checkpoint_path(directory, step);
    const std::string problem = find_problem(path, step);
    if (problem.empty()) {
      return CheckpointEntry{path, step, ""};
    }
    log_warning(-1, "skipping checkpoint '{}': {}", path, problem);
  }
  return std::nullopt;
}

std::string checkpoint_path(const std::string& directory, int64_t step) {
  return path_of(directory, kPrefix, step).string();
}

std::string temporary_path(const std::string& directory, int64_t step) {
  return path_of(directory, kTemporaryPrefix, step).string();
}

void prepare_temporary(const std::string& directory, int64_t step) {
  remove_leftovers(directory);
  std::error_code error;
  const std::string path = temporary_path(directory, step);
  fs::create_directories(path, error);
  if (error) {
    errno = error.value();
    throw_errno("create the folder", path);
  }
}

void remove_temporary(const std::string& directory, int64_t step) noexcept {
  std::error_code ignored;
  fs::remove_all(temporary_path(directory, step), ignored);
}

std::string commit_temporary(const std::string& directory, int64_t step) {
  const std::string from = temporary_path(directory, step);
  std::string to = checkpoint_path(directory, step);
  const fs::path trash = path_of(directory, kTrashPrefix, step);
  sync_directory(from);
  std::error_code ignored;
  if (!fs::exists(to, ignored)) {
    if (std::rename(from.c_str(), to.c_str()) != 0) {
      throw_errno("rename into place", to);
    }
  } else if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    move_to_trash_and_remove(from, trash);
  } else {
    // Some network file systems cannot exchange names.
    fs::remove_all(trash, ignored);
    if (std::rename(to.c_str(), trash.c_str()) != 0) {
      throw_errno("move away", to);
    }
    if (std::rename(from.c_str(), to.c_str()) != 0) {
      const int reason = errno;
      fs::rename(trash, to, ignored);
      errno = reason;
      throw_errno("rename into place", to);
    }
    fs::remove_all(trash, ignored);
  }
  sync_directory(directory);
  return to;
}

void remove_old_checkpoints(const std::string& directory, int64_t newest, int keep_last) {
  if (keep_last <= 0) {
    return;
  }
  int kept = 1;
  for (const int64_t step : list_steps(directory)) {
    const std::string path = checkpoint_path(directory, step);
    if (step >= newest || !find_problem(path, step).empty()) {
      continue;
    }
    if (kept < keep_last) {
      ++kept;
    } else {
      move_to_trash_and_remove(path, path_of(directory, kTrashPrefix, step));
    }
  }
}

}  // namespace plait
