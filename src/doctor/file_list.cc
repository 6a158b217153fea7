#include "doctor/file_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "base/file.h"

namespace plait {
namespace {

constexpr int kMaxDepth = 16;

using Inode = std::pair<dev_t, ino_t>;

class FileLister {
 public:
  explicit FileLister(int64_t max_files) : max_files_(max_files) {}

  void add_path(const std::string& path) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) {
      throw_errno("find", path);
    }
    add(path, info, 0);
  }
  std::vector<ListedFile> take() { return std::move(files_); }

 private:
  void add(const std::string& path, const struct stat& info, int depth) {
    if (S_ISDIR(info.st_mode)) {
      if (depth < kMaxDepth && seen_.insert({info.st_dev, info.st_ino}).second) {
        add_folder(path, depth);
      }
      return;
    }
    const bool readable = S_ISREG(info.st_mode) || (depth == 0 && S_ISFIFO(info.st_mode));
    if (readable && static_cast<int64_t>(files_.size()) < max_files_ &&
        seen_.insert({info.st_dev, info.st_ino}).second) {
      const int64_t size = S_ISREG(info.st_mode) ? static_cast<int64_t>(info.st_size) : -1;
      files_.push_back({path, size, static_cast<int64_t>(info.st_mtime)});
    }
  }

  void add_folder(const std::string& folder, int depth) {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
         it.increment(error)) {
      names.push_back(it->path().string());
    }
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      struct stat info = {};
      if (::stat(name.c_str(), &info) == 0) {
        add(name, info, depth + 1);
      }
    }
  }

  int64_t max_files_;
  std::vector<ListedFile> files_;
  std::set<Inode> seen_;
};

}  // namespace

std::vector<ListedFile> list_files(const std::vector<std::string>& paths, int64_t max_files) {
  FileLister lister(max_files);
  for (const std::string& path : paths) {
    lister.add_path(path);
  }
  return lister.take();
}

}  // namespace plait
