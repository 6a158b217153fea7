#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace plait {
namespace {

// Closes the descriptor on every way out.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

void throw_errno(const std::string& action, const std::string& path) {
  const int error = errno;
  ErrorCode code = ErrorCode::kIo;
  const char* hint = "";
  if (error == ENOSPC || error == EDQUOT) {
    code = ErrorCode::kResourceExhausted;
    hint = "; free some space or choose another folder";
  } else if (error == ENOENT) {
    code = ErrorCode::kNotFound;
  }
  throw_error(code, "cannot {} '{}': {}{}", action, path, std::strerror(error), hint);
}

namespace {

// A file that is read; errors as read_file's.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_.get() < 0) {
      throw_errno("open", path);
    }
    if (fstat(descriptor_.get(), &info_) != 0) {
      throw_errno("read", path);
    }
  }
  int get() const { return descriptor_.get(); }
  mode_t mode() const { return info_.st_mode; }
  int64_t size() const { return info_.st_size; }

 private:
  Descriptor descriptor_;
  struct stat info_ {};
};

}  // namespace

std::string read_file(const std::string& path) {
  const OpenFile file(path);
  if (S_ISDIR(file.mode())) {
    throw_error(ErrorCode::kInvalidArgument, "'{}' is a folder, a file is needed", path);
  }
  // Pipes are read too; devices such as /dev/zero have no end.
  constexpr size_t kMostOfNoFile = size_t{256} << 20;
  std::string content;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t count = read(file.get(), chunk, sizeof(chunk));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw_errno("read", path);
    }
    if (count == 0) {
      return content;
    }
    content.append(chunk, static_cast<size_t>(count));
    if (content.size() > kMostOfNoFile && !S_ISREG(file.mode())) {
      throw_error(ErrorCode::kInvalidArgument, "'{}' is no file and gives more than 256 MiB", path);
    }
  }
}

void sync_directory(const std::string& path) {
  const Descriptor folder(
      open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) {
    fsync(folder.get());
  }
}

bool path_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

void write_file_atomic(const std::string& path, std::string_view content, Durability durability) {
  const bool sync = durability == Durability::kPowerCut;
  const std::string temporary = path + ".tmp";
  try {
    const Descriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) {
      throw_errno("create", temporary);
    }
    size_t done = 0;
    while (done < content.size()) {
      const ssize_t count = write(file.get(), content.data() + done, content.size() - done);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count < 0) {
        throw_errno("write", temporary);
      }
      done += static_cast<size_t>(count);
    }
    if (sync && fsync(file.get()) != 0) {
      throw_errno("sync", temporary);
    }
    if (std::rename(temporary.c_str(), path.c_str()) != 0) {
      throw_errno("rename into place", path);
    }
  } catch (const Error&) {
    unlink(temporary.c_str());
    throw;
  }
  if (sync) {
    sync_directory(std::filesystem::path(path).parent_path().string());
  }
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const OpenFile file(path);
  if (!S_ISREG(file.mode())) {
    throw_error(ErrorCode::kInvalidArgument, "'{}' is not a regular file", path);
  }
  size_ = file.size();
  if (size_ == 0) {
    return;
  }
  void* address = mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) {
    throw_errno("map", path);
  }
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
  }
}

void forget_pages(std::span<const std::byte> mapped) {
  constexpr uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<uintptr_t>(mapped.data());
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const uintptr_t last = (begin + mapped.size()) / kPage * kPage;
  if (last > first) {
    // Only saves memory: where it is refused (larger pages), nothing is lost.
    madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
}

}  // namespace plait
