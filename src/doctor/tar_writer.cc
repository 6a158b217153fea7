#include "doctor/tar_writer.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "doctor/tar_reader.h"

namespace plait {
namespace {

constexpr int kLevel = 6;
constexpr int kGzipWindow = 15 + 16;

void put(std::array<char, kTarBlock>& block, size_t at, const std::string& text) {
  std::memcpy(block.data() + at, text.data(), text.size());
}

}  // namespace

class TarWriter::Deflater {
 public:
  explicit Deflater(const std::string& path) : file_(path), buffer_(size_t{1} << 16) {
    CHECK_EQ(deflateInit2(&stream_, kLevel, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY), Z_OK);
  }
  ~Deflater() { deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void write(std::string_view data, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    stream_.avail_in = static_cast<uInt>(data.size());
    do {
      stream_.next_out = buffer_.data();
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      deflate(&stream_, flush);
      const size_t count = buffer_.size() - stream_.avail_out;
      file_.write(std::as_bytes(std::span(buffer_).first(count)));
    } while (stream_.avail_out == 0);
  }
  int64_t written() const { return static_cast<int64_t>(stream_.total_out); }
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
  std::vector<Bytef> buffer_;
  z_stream stream_{};
};

TarWriter::TarWriter(const std::string& path) : out_(std::make_unique<Deflater>(path)) {}
TarWriter::~TarWriter() = default;

std::string TarWriter::safe_name(const std::string& name) {
  std::string result;
  size_t begin = 0;
  while (begin <= name.size()) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    if (!part.empty() && part != "." && part != "..") {
      result += (result.empty() ? "" : "/") + part;
    }
    begin = end + 1;
  }
  return result.empty() ? "file" : result;
}

void TarWriter::add_header(const std::string& name, size_t size, int64_t time, char type) {
  std::array<char, kTarBlock> block{};
  put(block, 0, name.substr(0, 100));
  put(block, 100, "0000600");
  put(block, 108, "0000000");
  put(block, 116, "0000000");
  put(block, 124, fmt::format("{:011o}", size));
  put(block, 136, fmt::format("{:011o}", std::clamp<int64_t>(time, 0, 077777777777)));
  put(block, 148, "        ");
  block[156] = type;
  put(block, 257, "ustar");
  put(block, 263, "00");
  unsigned sum = 0;
  for (const char c : block) {
    sum += static_cast<unsigned char>(c);
  }
  put(block, 148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  out_->write({block.data(), kTarBlock}, Z_NO_FLUSH);
}

void TarWriter::add(const std::string& name, std::string_view content, int64_t time) {
  const std::string safe = safe_name(name);
  const auto write_padded = [&](std::string_view data) {
    out_->write(data, Z_NO_FLUSH);
    static constexpr std::array<char, kTarBlock> kZeros{};
    out_->write({kZeros.data(), (kTarBlock - data.size() % kTarBlock) % kTarBlock}, Z_NO_FLUSH);
  };
  if (safe.size() > 100) {
    add_header("././@LongLink", safe.size() + 1, 0, 'L');
    write_padded({safe.c_str(), safe.size() + 1});
  }
  add_header(safe, content.size(), time, '0');
  write_padded(content);
}

int64_t TarWriter::bytes_with(int64_t bytes) const {
  constexpr int64_t kAround = int64_t{320} << 10;  // what the compressor still holds, headers, end
  return out_->written() + bytes + bytes / 1000 + kAround;
}

void TarWriter::finish() {
  static constexpr std::array<char, 2 * kTarBlock> kZeros{};
  out_->write({kZeros.data(), kZeros.size()}, Z_FINISH);
  out_->commit();
}

int64_t deflated_size(std::string_view content) {
  uLongf size = compressBound(static_cast<uLong>(content.size()));
  std::vector<Bytef> scratch(size);
  compress2(scratch.data(), &size, reinterpret_cast<const Bytef*>(content.data()),
            static_cast<uLong>(content.size()), kLevel);
  return static_cast<int64_t>(size);
}

}  // namespace plait
