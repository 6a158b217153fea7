// A .tar.gz written member by member (ustar; longer names as GNU long names).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace plait {

class TarWriter {
 public:
  // The archive appears at `path` when finish() returns. Errors: kIo, kNotFound (no such folder),
  // kResourceExhausted.
  explicit TarWriter(const std::string& path);
  ~TarWriter();
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  // `name` without a leading '/' and without "..": such parts are dropped. `time`: seconds since
  // 1970.
  void add(const std::string& name, std::string_view content, int64_t time);
  // As a directory entry would: what add() made of a name.
  static std::string safe_name(const std::string& name);
  // Upper bound of what the archive would be with `bytes` more, incompressible.
  int64_t bytes_with(int64_t bytes) const;
  void finish();

 private:
  class Deflater;
  void add_header(const std::string& name, size_t size, int64_t time, char type);
  std::unique_ptr<Deflater> out_;
};

// Size of `content` deflated as the writer would, for a decision at the limit.
int64_t deflated_size(std::string_view content);

}  // namespace plait
