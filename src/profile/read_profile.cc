// Finds the profiles below the paths that were given: which file belongs to which rank.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "profile/readers.h"

namespace plait {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMostFiles = 200000;
constexpr int kDeepestFolder = 16;

// The files of one rank.
struct RankFiles {
  fs::path folder;
  std::vector<fs::path> step_trace, kernels, statistic, communication, matrix, trace, info,
      databases;
};

bool starts(const fs::path& path, std::string_view prefix) {
  return path.filename().string().starts_with(prefix);
}

// The folder that stands for the rank: without the profilers' own subfolders.
fs::path rank_folder(const fs::path& file) {
  fs::path folder = file.parent_path();
  const std::string name = folder.filename().string();
  if (name == "ASCEND_PROFILER_OUTPUT" || name == "mindstudio_profiler_output") {
    folder = folder.parent_path();
  }
  // torch_npu keeps msprof's folder inside its own.
  if (folder.filename().string().starts_with("PROF_") &&
      folder.parent_path().filename().string().ends_with("_ascend_pt")) {
    folder = folder.parent_path();
  }
  return folder;
}

class Finder {
 public:
  void add(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      throw_error(ErrorCode::kNotFound, "{}: no such file or folder", path);
    }
    if (!fs::is_directory(status)) {
      add_file(path, true);
      return;
    }
    // Links to folders are not followed: they may lead in a circle.
    auto at = fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied,
                                               error);
    for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      if (at.depth() > kDeepestFolder) {
        at.disable_recursion_pending();
      }
      std::error_code ignored;
      if (at->is_regular_file(ignored) && ++files_ <= kMostFiles) {
        add_file(at->path(), false);
      }
    }
  }

  std::map<fs::path, RankFiles> ranks;
  std::vector<fs::path> cluster;

 private:
  void add_file(const fs::path& path, bool named) {
    const std::string extension = path.extension().string();
    RankFiles& files = ranks[rank_folder(path)];
    files.folder = rank_folder(path);
    if (starts(path, "cluster_step_trace_time") && extension == ".csv") {
      cluster.push_back(path);
    } else if (starts(path, "step_trace_time") && extension == ".csv") {
      files.step_trace.push_back(path);
    } else if ((starts(path, "kernel_details") || starts(path, "op_summary")) &&
               extension == ".csv") {
      files.kernels.push_back(path);
    } else if (starts(path, "op_statistic") && extension == ".csv") {
      files.statistic.push_back(path);
    } else if (starts(path, "communication_matrix") && extension == ".json") {
      files.matrix.push_back(path);
    } else if (starts(path, "communication") && extension == ".json") {
      files.communication.push_back(path);
    } else if (extension == ".db" && !starts(path, "cluster_")) {
      files.databases.push_back(path);
    } else if (starts(path, "profiler_info") && extension == ".json") {
      files.info.push_back(path);
    } else if (extension == ".json" && (named || path.string().find("trace") != std::string::npos ||
                                        starts(path, "msprof_"))) {
      files.trace.push_back(path);
    }
  }

  size_t files_ = 0;
};

std::optional<int> number_after(const std::string& text, std::string_view prefix) {
  const size_t at = text.find(prefix);
  if (at == std::string::npos) {
    return std::nullopt;
  }
  const size_t digits = at + prefix.size();
  int value = 0;
  const auto [end, error] = std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

// profiler_info_3.json, ascend_pytorch_profiler_3.db, or the name of a folder: rank_3, rank3,
// device_3.
std::optional<int> rank_of(const RankFiles& files) {
  for (const fs::path& info : files.info) {
    if (const auto number = number_after(info.filename().string(), "profiler_info_")) {
      return number;
    }
  }
  for (const fs::path& database : files.databases) {
    if (const auto number = number_after(database.filename().string(), "pytorch_profiler_")) {
      return number;
    }
  }
  for (fs::path folder = files.folder; folder.has_filename(); folder = folder.parent_path()) {
    const std::string name = folder.filename().string();
    for (const char* prefix : {"rank_", "rank-", "rank", "device_"}) {
      if (name.starts_with(prefix)) {
        if (const auto number = number_after(name, prefix)) {
          return number;
        }
      }
    }
  }
  return std::nullopt;
}

class ProfileReader {
 public:
  Profile read(Finder& finder);

 private:
  // A reader's own error (no header, cannot be opened) is a note: the other files still count.
  template <typename F>
  void guarded(F read) {
    try {
      read();
    } catch (const Error& error) {
      profile_.notes.push_back(error.message());
    }
  }
  void read_files(const RankFiles& files, RankProfile& rank);
  void read_traces(const RankFiles& files, RankProfile& rank);

  Profile profile_;
};

void ProfileReader::read_files(const RankFiles& files, RankProfile& rank) {
  Notes& notes = profile_.notes;
  for (const fs::path& path : files.step_trace) {
    guarded([&] { read_step_trace(path.string(), rank, notes); });
  }
  // Details say more than sums, and both count the same operators.
  for (const fs::path& path : files.kernels) {
    if (path == files.kernels.front() || !starts(files.kernels.front(), "kernel_details")) {
      guarded([&] { read_kernels(path.string(), rank, notes); });
    }
  }
  if (rank.operators.empty()) {
    for (const fs::path& path : files.statistic) {
      guarded([&] { read_operator_statistic(path.string(), rank, notes); });
    }
  }
  for (const fs::path& path : files.communication) {
    guarded([&] { read_communication(path.string(), rank, notes); });
  }
  for (const fs::path& path : files.matrix) {
    guarded([&] { read_communication_matrix(path.string(), rank, notes); });
  }
  for (const fs::path& path : files.databases) {
    guarded([&] { read_database(path.string(), rank, notes); });
  }
}

void ProfileReader::read_traces(const RankFiles& files, RankProfile& rank) {
  if (rank.steps > 0) {
    return;
  }
  for (const fs::path& path : files.trace) {
    std::vector<RankProfile> found;
    guarded([&] { found = read_trace(path.string(), rank.rank, profile_.notes); });
    if (found.size() == 1 && found.front().rank == rank.rank) {
      rank.steps = found.front().steps;
      rank.split = found.front().split;
      rank.slowest_step_us = found.front().slowest_step_us;
    } else {
      profile_.ranks.insert(profile_.ranks.end(), found.begin(), found.end());
    }
  }
}

Profile ProfileReader::read(Finder& finder) {
  int next = 0;
  for (auto& [folder, files] : finder.ranks) {
    std::sort(files.kernels.begin(), files.kernels.end());
    // analysis.db first: it says more of collectives than the record it was made from.
    std::sort(files.databases.begin(), files.databases.end());
    RankProfile rank;
    rank.rank = rank_of(files).value_or(next);
    rank.source = folder.string();
    read_files(files, rank);
    read_traces(files, rank);
    if (rank.steps > 0 || !rank.operators.empty() || !rank.collectives.empty() ||
        !rank.links.empty()) {
      next = std::max(next, rank.rank) + 1;
      profile_.ranks.push_back(std::move(rank));
    }
  }
  std::map<int, RankProfile> clustered;
  for (const fs::path& path : finder.cluster) {
    guarded([&] { read_cluster_steps(path.string(), clustered, profile_.notes); });
  }
  for (auto& [number, rank] : clustered) {
    const auto same = std::find_if(profile_.ranks.begin(), profile_.ranks.end(),
                                   [n = number](const RankProfile& one) { return one.rank == n; });
    if (same == profile_.ranks.end()) {
      profile_.ranks.push_back(std::move(rank));
    } else if (same->steps == 0) {
      same->steps = rank.steps;
      same->split = rank.split;
      same->slowest_step_us = rank.slowest_step_us;
    }
  }
  std::stable_sort(profile_.ranks.begin(), profile_.ranks.end(),
                   [](const RankProfile& a, const RankProfile& b) { return a.rank < b.rank; });
  return std::move(profile_);
}

}  // namespace

Profile read_profile(const std::vector<std::string>& paths) {
  Finder finder;
  for (const std::string& path : paths) {
    finder.add(path);
  }
  Profile profile = ProfileReader().read(finder);
  if (profile.ranks.empty()) {
    std::string why;
    for (const std::string& note : profile.notes) {
      why += "\n  " + note;
    }
    throw_error(ErrorCode::kInvalidArgument,
                "{}: holds no profile that can be used; wanted are step_trace_time.csv, "
                "kernel_details.csv, op_summary*.csv, op_statistic*.csv, communication*.json, "
                "trace_view.json, their *.db, or a trace of plait train{}",
                paths.empty() ? "no path" : paths.front(), why);
  }
  return profile;
}

}  // namespace plait
