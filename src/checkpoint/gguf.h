// GGUF files (versions 2 and 3, little endian): typed metadata, then tensors in ggml's formats.
// The layout is that of ggml's docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "checkpoint/gguf_blocks.h"

namespace plait {

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::kF32;
  std::vector<int64_t> shape;        // outermost dim first, as in HF; ggml's is the other way round
  std::span<const std::byte> bytes;  // refers to the file
  int64_t file_offset = 0;           // of the first byte

  int64_t count() const;
  int64_t cols() const { return shape.back(); }
};

// A value of the metadata, still in the file's bytes, which are known to be well formed.
struct GgufValue {
  uint32_t type = 0;            // of the value, or of an array's elements
  std::optional<int64_t> size;  // elements of an array
  std::span<const std::byte> bytes;
};

// Refers to `bytes` and `file`, a name for messages. Thread-safe once built.
class GgufView {
 public:
  GgufView() = default;
  // Checks everything: magic, version, every length against the bytes that are there, names that
  // occur once, tensor types, dims, alignment, and that every tensor's data lies in the file.
  // Errors: kCorruptData naming file, key or tensor, and offset; kNotImplemented for a version, a
  // byte order or a tensor type that is not here, and for one part of a split model.
  GgufView(std::span<const std::byte> bytes, std::string_view file);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(const std::string& name) const;  // null if absent
  const GgufTensor& at(const std::string& name) const;    // Errors: kCorruptData, named

  // Metadata by key; absent if the key is. Errors: kCorruptData for a value of another type, with
  // the key.
  bool has(const std::string& key) const { return values_.contains(key); }
  std::optional<std::string> text(const std::string& key) const;
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;  // an integer is one too
  std::optional<bool> flag(const std::string& key) const;
  std::optional<std::vector<std::string>> texts(const std::string& key) const;
  // A single integer counts as a list of one.
  std::optional<std::vector<int64_t>> integers(const std::string& key) const;
  std::string required_text(const std::string& key) const;  // Errors: kCorruptData
  int64_t required_integer(const std::string& key) const;   // Errors: kCorruptData

  const std::string& file() const { return file_; }

 private:
  const GgufValue* value(const std::string& key) const;
  [[noreturn]] void wrong_type(const std::string& key, const char* needed) const;

  std::string file_;
  std::unordered_map<std::string, GgufValue> values_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, size_t> index_;
};

// A memory-mapped file. Neither copied nor moved.
class GgufFile {
 public:
  // Errors: as MappedFile and GgufView.
  explicit GgufFile(const std::string& path) : file_(path), view_(file_.bytes(), path) {}
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;
  const GgufView& view() const { return view_; }

 private:
  MappedFile file_;
  GgufView view_;
};

// Part of a tensor seen as a matrix whose columns are the last dim: `count` elements of row `row`
// from column `col` on, as f32.
struct GgufRow {
  int64_t row = 0;
  int64_t col = 0;
};
void copy_row_as_f32(const GgufTensor& tensor, const GgufRow& place, std::span<float> out);

}  // namespace plait
