// safetensors files: 8 bytes of header length (little endian), a JSON header of names, dtypes,
// shapes and byte ranges, then the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/atomic_file.h"
#include "base/dtype.h"
#include "base/file.h"

namespace plait {

// One tensor of a file. `bytes` and `file` refer to the SafetensorsFile it came from. The data may
// stand at any address: read it with memcpy or copy_as_f32, not through a typed pointer.
struct SafeTensor {
  std::string name;
  std::string dtype_text;      // as in the file: "F32", "BF16", "F64", "U8", "BOOL", ...
  std::optional<DType> dtype;  // of those that plait computes with; none for the others
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  int64_t file_offset = 0;  // of the first byte
  std::string_view file;

  int64_t count() const;
};

struct SafetensorsView {
  std::vector<SafeTensor> tensors;  // in the order of the data
  std::map<std::string, std::string> metadata;
};

// Reads the header in `bytes` (a whole file) and checks everything: length, JSON, UTF-8, dtypes,
// shapes, byte ranges that match the shapes, lie in the file, do not overlap and leave no gap,
// names that occur once. Refers to `bytes` and `file`, a name for messages.
// Errors: kCorruptData with file and byte offset; kNotImplemented for a dtype of less than a byte.
SafetensorsView parse_safetensors(std::span<const std::byte> bytes, std::string_view file);

// A memory-mapped file. Thread-safe once built; neither copied nor moved.
class SafetensorsFile {
 public:
  // Errors: as MappedFile and parse_safetensors.
  explicit SafetensorsFile(const std::string& path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::vector<SafeTensor>& tensors() const { return view_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return view_.metadata; }
  const SafeTensor* find(const std::string& name) const;  // null if absent
  const SafeTensor& at(const std::string& name) const;    // Errors: kCorruptData, named
  const std::string& path() const { return file_.path(); }
  // The whole file, for checksums.
  std::span<const std::byte> bytes() const { return file_.bytes(); }

 private:
  MappedFile file_;
  SafetensorsView view_;
  std::unordered_map<std::string, size_t> index_;
};

// Part of a tensor seen as a matrix: dim 0 are the rows, all other dims together the columns (one
// column for fewer than two dims).
struct TensorRect {
  int64_t row_begin = 0, rows = 0;
  int64_t col_begin = 0, cols = 0;
};
TensorRect whole_tensor(const SafeTensor& tensor);

// Copies the rectangle, row by row, into `out` (rows * cols elements) as f32; exact for all
// sources. Requires: the rectangle lies in the tensor. Errors: kCorruptData unless F32, BF16 or
// F16, naming file and tensor.
void copy_as_f32(const SafeTensor& tensor, const TensorRect& rect, std::span<float> out);

// All elements of an I64 or I32 tensor. Errors: kCorruptData for other dtypes, named.
std::vector<int64_t> read_integers(const SafeTensor& tensor);

struct TensorDecl {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

// Writes a file whose tensors are all declared first; their bytes follow in the order of
// declaration, in chunks of any size. The file appears at `path` only by finish(); until then, and
// after an error, whatever was there stays (base/atomic_file.h). HF transformers needs the metadata
// {"format": "pt"}.
class SafetensorsWriter {
 public:
  // Errors: as AtomicFile; a name declared twice or a negative dim is a bug (CHECK).
  SafetensorsWriter(const std::string& path, const std::vector<TensorDecl>& tensors,
                    const std::map<std::string, std::string>& metadata);

  // The next bytes of the data.
  void write(std::span<const std::byte> data);
  // Requires: exactly the declared bytes were written.
  void finish();

  // Of the whole file, valid after finish().
  int64_t file_bytes() const { return file_.bytes_written(); }
  uint32_t crc32c() const { return file_.crc32c(); }

 private:
  AtomicFile file_;
  int64_t bytes_left_ = 0;
};

}  // namespace plait
