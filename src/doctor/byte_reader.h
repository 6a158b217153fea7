// Bytes of logs from wherever they are: files, parts of files, gzip streams, members of archives.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace plait {

class ByteReader {
 public:
  virtual ~ByteReader() = default;
  // Fills a part of `buffer` from its front; 0 at the end. Errors: kIo, kCorruptData.
  virtual size_t read(std::span<char> buffer) = 0;
};

// A range of a file; `size` < 0: to the end. "-" is standard input.
struct FileRange {
  std::string path;
  int64_t begin = 0;
  int64_t size = -1;
};
std::unique_ptr<ByteReader> open_file(const FileRange& range);

// What `inner` holds, decompressed (concatenated members too). A stream that ends early or is
// damaged gives what could be read and then sets `problem`, which must outlive the reader.
std::unique_ptr<ByteReader> open_gzip(std::unique_ptr<ByteReader> inner, std::string& problem);

// The text alone.
std::unique_ptr<ByteReader> open_text(const std::string& text);

// `head` and then what `inner` still has.
std::unique_ptr<ByteReader> put_back(std::string head, std::unique_ptr<ByteReader> inner);

}  // namespace plait
