#include <array>
#include <cstddef>
#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "base/json_full.h"
#include "checkpoint/safetensors.h"

namespace plait {
namespace {

// Data starts at a multiple of this, so that a map of the file is aligned.
constexpr size_t kDataAlignment = 64;

const char* dtype_text(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
  }
  return "?";
}

int64_t declared_bytes(const TensorDecl& tensor) {
  int64_t bytes = dtype_size(tensor.dtype);
  for (const int64_t dim : tensor.shape) {
    CHECK_GE(dim, 0);
    CHECK(!__builtin_mul_overflow(bytes, dim, &bytes));
  }
  return bytes;
}

std::string quoted(const std::string& text) {
  return dump_json(Json(text));
}

std::string header_text(const std::vector<TensorDecl>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    const char* comma = "";
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}{}:{}", comma, quoted(key), quoted(value));
      comma = ",";
    }
    text += "}";
  }
  std::unordered_set<std::string_view> names;
  int64_t offset = 0;
  for (const TensorDecl& tensor : tensors) {
    CHECK(names.insert(tensor.name).second && tensor.name != "__metadata__");
    const int64_t end = offset + declared_bytes(tensor);
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text.size() == 1 ? "" : ",", quoted(tensor.name), dtype_text(tensor.dtype),
                        fmt::join(tensor.shape, ","), offset, end);
    offset = end;
  }
  text += "}";
  text.resize((text.size() + 8 + kDataAlignment - 1) / kDataAlignment * kDataAlignment - 8, ' ');
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path,
                                     const std::vector<TensorDecl>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  for (const TensorDecl& tensor : tensors) {
    bytes_left_ += declared_bytes(tensor);
  }
  const std::string header = header_text(tensors, metadata);
  std::array<std::byte, 8> length{};
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(header.size() >> (8 * i));
  }
  file_.write(length);
  file_.write(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::write(std::span<const std::byte> data) {
  bytes_left_ -= static_cast<int64_t>(data.size());
  CHECK_GE(bytes_left_, 0);
  file_.write(data);
}

void SafetensorsWriter::finish() {
  CHECK_EQ(bytes_left_, 0);
  file_.commit();
}

}  // namespace plait
