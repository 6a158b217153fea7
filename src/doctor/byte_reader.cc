#include "doctor/byte_reader.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace plait {
namespace {

class FileReader final : public ByteReader {
 public:
  explicit FileReader(FileRange range) : range_(std::move(range)), left_(range_.size) {
    if (range_.path == "-") {
      descriptor_ = STDIN_FILENO;
      return;
    }
    // A pipe without a writer must not hold us up.
    descriptor_ = ::open(range_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) {
      throw_errno("open", range_.path);
    }
    if (range_.begin > 0 && ::lseek(descriptor_, range_.begin, SEEK_SET) < 0) {
      ::close(descriptor_);
      throw_errno("seek in", range_.path);
    }
    ::posix_fadvise(descriptor_, range_.begin, 0, POSIX_FADV_SEQUENTIAL);
  }
  ~FileReader() override {
    if (descriptor_ != STDIN_FILENO) {
      ::close(descriptor_);
    }
  }
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  size_t read(std::span<char> buffer) override {
    size_t want = buffer.size();
    if (left_ >= 0) {
      want = std::min(want, static_cast<size_t>(left_));
    }
    ssize_t count = 0;
    do {
      count = ::read(descriptor_, buffer.data(), want);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
      throw_errno("read", range_.path);
    }
    left_ -= left_ >= 0 ? count : 0;
    return static_cast<size_t>(count);
  }

 private:
  FileRange range_;
  int64_t left_;
  int descriptor_ = -1;
};

class GzipReader final : public ByteReader {
 public:
  GzipReader(std::unique_ptr<ByteReader> inner, std::string& problem)
      : inner_(std::move(inner)), problem_(problem), input_(size_t{1} << 16) {
    CHECK_EQ(inflateInit2(&stream_, 15 + 32), Z_OK);
  }
  ~GzipReader() override { inflateEnd(&stream_); }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  size_t read(std::span<char> buffer) override {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_.avail_out = static_cast<uInt>(std::min(buffer.size(), size_t{1} << 30));
    const uInt room = stream_.avail_out;
    while (!done_ && stream_.avail_out == room) {
      step();
    }
    return room - stream_.avail_out;
  }

 private:
  void step() {
    if (stream_.avail_in == 0) {
      const size_t count = inner_->read(input_);
      stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
      stream_.avail_in = static_cast<uInt>(count);
      if (count == 0) {
        if (!between_members_) {
          problem_ = "the compressed data end early";
        }
        done_ = true;
        return;
      }
    }
    between_members_ = false;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      between_members_ = true;
      inflateReset(&stream_);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      problem_ = "the compressed data are damaged";
      done_ = true;
    }
  }

  std::unique_ptr<ByteReader> inner_;
  std::string& problem_;
  std::vector<char> input_;
  z_stream stream_{};
  bool done_ = false;
  bool between_members_ = true;
};

class PutBackReader final : public ByteReader {
 public:
  PutBackReader(std::string head, std::unique_ptr<ByteReader> inner)
      : head_(std::move(head)), inner_(std::move(inner)) {}
  size_t read(std::span<char> buffer) override {
    if (at_ == head_.size()) {
      return inner_->read(buffer);
    }
    const size_t count = std::min(buffer.size(), head_.size() - at_);
    std::memcpy(buffer.data(), head_.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  std::string head_;
  size_t at_ = 0;
  std::unique_ptr<ByteReader> inner_;
};

}  // namespace

std::unique_ptr<ByteReader> open_file(const FileRange& range) {
  return std::make_unique<FileReader>(range);
}

std::unique_ptr<ByteReader> open_gzip(std::unique_ptr<ByteReader> inner, std::string& problem) {
  return std::make_unique<GzipReader>(std::move(inner), problem);
}

std::unique_ptr<ByteReader> open_text(const std::string& text) {
  class Nothing final : public ByteReader {
   public:
    size_t read(std::span<char> /*buffer*/) override { return 0; }
  };
  return put_back(text, std::make_unique<Nothing>());
}

std::unique_ptr<ByteReader> put_back(std::string head, std::unique_ptr<ByteReader> inner) {
  return std::make_unique<PutBackReader>(std::move(head), std::move(inner));
}

}  // namespace plait
