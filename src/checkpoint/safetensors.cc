#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "checkpoint/safetensors_header.h"

namespace plait {
namespace {

// The official reader's limit: no honest header comes near.
constexpr uint64_t kHeaderBytesMax = 100'000'000;

struct FileDType {
  std::string_view name;
  int64_t size;
  std::optional<DType> dtype;
};
constexpr std::array<FileDType, 17> kFileDTypes = {{
    {"F32", 4, DType::kF32},
    {"BF16", 2, DType::kBF16},
    {"F16", 2, DType::kF16},
    {"I64", 8, DType::kI64},
    {"I32", 4, DType::kI32},
    {"F64", 8, std::nullopt},
    {"U64", 8, std::nullopt},
    {"U32", 4, std::nullopt},
    {"I16", 2, std::nullopt},
    {"U16", 2, std::nullopt},
    {"I8", 1, std::nullopt},
    {"U8", 1, std::nullopt},
    {"BOOL", 1, std::nullopt},
    {"F8_E4M3", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt},
    {"F8_E8M0", 1, std::nullopt},
    {"C64", 8, std::nullopt},
}};

const FileDType& file_dtype(const HeaderEntry& entry, std::string_view file) {
  for (const FileDType& known : kFileDTypes) {
    if (entry.dtype == known.name) {
      return known;
    }
  }
  if (entry.dtype == "F4" || entry.dtype == "F6_E2M3" || entry.dtype == "F6_E3M2") {
    throw_error(ErrorCode::kNotImplemented,
                "{}: byte {}: tensor '{}' has dtype {}: not implemented", file, entry.file_offset,
                entry.name, entry.dtype);
  }
  throw_error(ErrorCode::kCorruptData, "{}: byte {}: tensor '{}' has the unknown dtype '{}'", file,
              entry.file_offset, entry.name, entry.dtype);
}

// Elements of a shape, times `size`; nothing if that overflows.
std::optional<int64_t> checked_bytes(const std::vector<int64_t>& shape, int64_t size) {
  int64_t product = 1;
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(product, dim, &product)) {
      return std::nullopt;
    }
  }
  if (__builtin_mul_overflow(product, size, &product)) {
    return std::nullopt;
  }
  return product;
}

struct DataRegion {
  std::span<const std::byte> bytes;
  int64_t start = 0;  // in the file
  std::string_view file;
};

SafeTensor make_tensor(HeaderEntry&& entry, const DataRegion& data) {
  const FileDType& dtype = file_dtype(entry, data.file);
  const std::optional<int64_t> needed = checked_bytes(entry.shape, dtype.size);
  if (!needed) {
    throw_error(ErrorCode::kCorruptData, "{}: byte {}: the shape of tensor '{}' overflows 64 bits",
                data.file, entry.file_offset, entry.name);
  }
  const auto available = static_cast<int64_t>(data.bytes.size());
  if (entry.begin > entry.end || entry.end > available) {
    throw_error(
        ErrorCode::kCorruptData,
        "{}: byte {}: tensor '{}' claims data bytes {} to {}, but the file holds {}; it may "
        "have been cut short",
        data.file, entry.file_offset, entry.name, entry.begin, entry.end, available);
  }
  if (entry.end - entry.begin != *needed) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: tensor '{}' has {} data bytes, but its shape and dtype need {}",
                data.file, entry.file_offset, entry.name, entry.end - entry.begin, *needed);
  }
  SafeTensor tensor;
  tensor.name = std::move(entry.name);
  tensor.dtype_text = std::move(entry.dtype);
  tensor.dtype = dtype.dtype;
  tensor.shape = std::move(entry.shape);
  tensor.bytes = data.bytes.subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(*needed));
  tensor.file_offset = data.start + entry.begin;
  tensor.file = data.file;
  return tensor;
}

// `tensors` are in the order of the data.
void check_contiguous(const std::vector<SafeTensor>& tensors, const DataRegion& data) {
  int64_t cursor = data.start;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.file_offset != cursor) {
      throw_error(ErrorCode::kCorruptData, "{}: byte {}: tensor '{}' {}, which ends at byte {}",
                  data.file, tensor.file_offset, tensor.name,
                  tensor.file_offset < cursor ? "overlaps the one before it"
                                              : "leaves a gap to the one before it",
                  cursor);
    }
    cursor += static_cast<int64_t>(tensor.bytes.size());
  }
  const int64_t end = data.start + static_cast<int64_t>(data.bytes.size());
  if (cursor != end) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: {} bytes behind the last tensor belong to none", data.file, cursor,
                end - cursor);
  }
}

template <typename T>
void convert_row(const std::byte* from, std::span<float> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    to[i] = to_float(value);
  }
}

}  // namespace

int64_t SafeTensor::count() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

SafetensorsView parse_safetensors(std::span<const std::byte> bytes, std::string_view file) {
  if (bytes.size() < kHeaderStart) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: the file ends inside the header length; a safetensors file has at "
                "least 10 bytes",
                file, bytes.size());
  }
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kHeaderStart; ++i) {
    header_bytes |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  }
  if (header_bytes > bytes.size() - kHeaderStart || header_bytes > kHeaderBytesMax) {
    throw_error(
        ErrorCode::kCorruptData,
        "{}: byte 0: the header should be {} bytes long, but {}; this is no safetensors file "
        "or it was cut short",
        file, header_bytes,
        header_bytes > kHeaderBytesMax
            ? fmt::format("{} is the most allowed", kHeaderBytesMax)
            : fmt::format("only {} follow", bytes.size() - kHeaderStart));
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kHeaderStart;
  SafetensorsHeader header = parse_safetensors_header({text, header_bytes}, file);
  const DataRegion data{bytes.subspan(kHeaderStart + header_bytes),
                        static_cast<int64_t>(kHeaderStart + header_bytes), file};
  SafetensorsView view;
  view.metadata = std::move(header.metadata);
  view.tensors.reserve(header.entries.size());
  for (HeaderEntry& entry : header.entries) {
    view.tensors.push_back(make_tensor(std::move(entry), data));
  }
  // An empty tensor shares its offset with the next one and comes before it.
  std::sort(view.tensors.begin(), view.tensors.end(), [](const SafeTensor& a, const SafeTensor& b) {
    return std::make_tuple(a.file_offset, a.bytes.size(), std::string_view{a.name}) <
           std::make_tuple(b.file_offset, b.bytes.size(), std::string_view{b.name});
  });
  check_contiguous(view.tensors, data);
  return view;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(path), view_(parse_safetensors(file_.bytes(), file_.path())) {
  for (size_t i = 0; i < view_.tensors.size(); ++i) {
    index_.emplace(view_.tensors[i].name, i);
  }
}

const SafeTensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &view_.tensors[found->second];
}

const SafeTensor& SafetensorsFile::at(const std::string& name) const {
  const SafeTensor* tensor = find(name);
  if (tensor == nullptr) {
    throw_error(ErrorCode::kCorruptData, "{}: tensor '{}' is missing; the file has {} tensors",
                file_.path(), name, view_.tensors.size());
  }
  return *tensor;
}

TensorRect whole_tensor(const SafeTensor& tensor) {
  const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
  int64_t cols = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i) {
    cols *= tensor.shape[i];
  }
  return {.row_begin = 0, .rows = rows, .col_begin = 0, .cols = cols};
}

void copy_as_f32(const SafeTensor& tensor, const TensorRect& rect, std::span<float> out) {
  const TensorRect whole = whole_tensor(tensor);
  CHECK(rect.row_begin >= 0 && rect.rows >= 0 && rect.row_begin + rect.rows <= whole.rows);
  CHECK(rect.col_begin >= 0 && rect.cols >= 0 && rect.col_begin + rect.cols <= whole.cols);
  CHECK_EQ(static_cast<int64_t>(out.size()), rect.rows * rect.cols);
  const bool floating =
      tensor.dtype == DType::kF32 || tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF16;
  if (!floating) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: tensor '{}' is {}; F32, BF16 or F16 is needed", tensor.file,
                tensor.file_offset, tensor.name, tensor.dtype_text);
  }
  const int64_t size = dtype_size(*tensor.dtype);
  for (int64_t row = 0; row < rect.rows; ++row) {
    const std::byte* from =
        tensor.bytes.data() + ((rect.row_begin + row) * whole.cols + rect.col_begin) * size;
    const std::span<float> to =
        out.subspan(static_cast<size_t>(row * rect.cols), static_cast<size_t>(rect.cols));
    if (tensor.dtype == DType::kF32) {
      convert_row<float>(from, to);
    } else if (tensor.dtype == DType::kBF16) {
      convert_row<BFloat16>(from, to);
    } else {
      convert_row<Float16>(from, to);
    }
  }
}

std::vector<int64_t> read_integers(const SafeTensor& tensor) {
  if (tensor.dtype != DType::kI64 && tensor.dtype != DType::kI32) {
    throw_error(ErrorCode::kCorruptData, "{}: byte {}: tensor '{}' is {}; I64 or I32 is needed",
                tensor.file, tensor.file_offset, tensor.name, tensor.dtype_text);
  }
  std::vector<int64_t> values(static_cast<size_t>(tensor.count()));
  if (values.empty()) {
    return values;
  }
  if (tensor.dtype == DType::kI64) {
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    int32_t value = 0;
    std::memcpy(&value, tensor.bytes.data() + i * sizeof(value), sizeof(value));
    values[i] = value;
  }
  return values;
}

}  // namespace plait
