// A file written piece by piece that appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plait {

// Writes to `path`.tmp; commit() fsyncs it, renames it over `path` and fsyncs the folder, so a
// reader sees the old or the new content. Without commit(), or after an error, the temporary file
// is removed and what was at `path` stays. One thread at a time. Errors: kIo, kNotFound (no such
// folder), kResourceExhausted (disk or quota full).
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> data);
  // Flushes and fsyncs: after it, commit() needs no more space. For files that belong together.
  void prepare();
  void commit();

  // Of what was written so far.
  int64_t bytes_written() const { return bytes_written_; }
  uint32_t crc32c() const { return crc32c_; }
  const std::string& path() const { return path_; }

 private:
  void write_through(std::span<const std::byte> data);
  void flush();
  void discard();

  std::string path_;
  std::string temporary_;
  std::vector<std::byte> buffer_;
  int fd_ = -1;
  int64_t bytes_written_ = 0;
  uint32_t crc32c_ = 0;
};

}  // namespace plait
