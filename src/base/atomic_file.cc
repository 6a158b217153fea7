#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"

namespace plait {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    throw_errno("create", temporary_);
  }
}

AtomicFile::~AtomicFile() {
  discard();
}

void AtomicFile::write(std::span<const std::byte> data) {
  CHECK_GE(fd_, 0);
  crc32c_ = plait::crc32c(data, crc32c_);
  bytes_written_ += static_cast<int64_t>(data.size());
  if (buffer_.size() + data.size() > kBufferBytes) {
    flush();
  }
  if (data.size() >= kBufferBytes) {
    write_through(data);
  } else {
    buffer_.insert(buffer_.end(), data.begin(), data.end());
  }
}

void AtomicFile::prepare() {
  CHECK_GE(fd_, 0);
  flush();
  if (fsync(fd_) != 0) {
    const int error = errno;
    discard();
    errno = error;
    throw_errno("sync", temporary_);
  }
}

void AtomicFile::commit() {
  prepare();
  close(std::exchange(fd_, -1));
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    errno = error;
    throw_errno("rename into place", path_);
  }
  sync_directory(std::filesystem::path(path_).parent_path().string());
}

void AtomicFile::write_through(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t count = ::write(fd_, data.data(), data.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      const int error = errno;
      discard();
      errno = error;
      throw_errno("write", temporary_);
    }
    data = data.subspan(static_cast<size_t>(count));
  }
}

void AtomicFile::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void AtomicFile::discard() {
  if (fd_ >= 0) {
    close(std::exchange(fd_, -1));
    unlink(temporary_.c_str());
  }
}

}  // namespace plait
