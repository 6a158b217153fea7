// Writes GGUF files (version 3, little endian).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "checkpoint/gguf_blocks.h"

namespace plait {

// Typed key-value pairs, in the order of the calls. A key given twice is a bug of the caller.
class GgufMetadata {
 public:
  void text(const std::string& key, const std::string& value);
  void integer(const std::string& key, uint32_t value);
  void number(const std::string& key, float value);
  void flag(const std::string& key, bool value);
  void texts(const std::string& key, const std::vector<std::string>& values);
  void integers(const std::string& key, const std::vector<int32_t>& values);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void add(const std::string& key, uint32_t type);

  uint64_t count_ = 0;
  std::string bytes_;
};

struct GgufDecl {
  std::string name;
  GgufType type = GgufType::kF32;
  std::vector<int64_t> shape;  // outermost dim first, as in HF

  int64_t bytes() const;
};

// All tensors are declared first; their bytes follow in that order. The file appears at `path` only
// by finish() (base/atomic_file.h).
class GgufWriter {
 public:
  // Errors: as AtomicFile.
  GgufWriter(const std::string& path, const GgufMetadata& metadata,
             const std::vector<GgufDecl>& tensors);

  // The next bytes of the present tensor; the padding behind it is written by itself.
  void write(std::span<const std::byte> data);
  // Requires: exactly the declared bytes were written.
  void finish();

 private:
  AtomicFile file_;
  std::vector<int64_t> bytes_left_;  // of each tensor
  size_t tensor_ = 0;
  int64_t offset_ = 0;  // in the data
};

}  // namespace plait
