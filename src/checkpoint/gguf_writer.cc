#include "checkpoint/gguf_writer.h"

#include <algorithm>

#include "base/error.h"
#include "base/round_up.h"
#include "checkpoint/gguf_parts.h"

namespace plait {
namespace {

using enum gguf::ValueType;

constexpr int64_t kAlignment = 32;
constexpr uint32_t kGgufVersion = 3;

template <typename T>
std::string raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}

std::string sized(const std::string& text) {
  return raw(static_cast<uint64_t>(text.size())) + text;
}

}  // namespace

void GgufMetadata::add(const std::string& key, uint32_t type) {
  bytes_ += sized(key) + raw(type);
  ++count_;
}

void GgufMetadata::text(const std::string& key, const std::string& value) {
  add(key, kText);
  bytes_ += sized(value);
}

void GgufMetadata::integer(const std::string& key, uint32_t value) {
  add(key, kUint32);
  bytes_ += raw(value);
}

void GgufMetadata::number(const std::string& key, float value) {
  add(key, kFloat32);
  bytes_ += raw(value);
}

void GgufMetadata::flag(const std::string& key, bool value) {
  add(key, kBool);
  bytes_.push_back(value ? '\1' : '\0');
}

void GgufMetadata::texts(const std::string& key, const std::vector<std::string>& values) {
  add(key, kArray);
  bytes_ += raw(static_cast<uint32_t>(kText)) + raw(static_cast<uint64_t>(values.size()));
  for (const std::string& value : values) {
    bytes_ += sized(value);
  }
}

void GgufMetadata::integers(const std::string& key, const std::vector<int32_t>& values) {
  add(key, kArray);
  bytes_ += raw(static_cast<uint32_t>(kInt32)) + raw(static_cast<uint64_t>(values.size()));
  for (const int32_t value : values) {
    bytes_ += raw(value);
  }
}

int64_t GgufDecl::bytes() const {
  const GgufTypeInfo info = *gguf_type_info(static_cast<uint32_t>(type));
  CHECK_EQ(shape.back() % info.block, 0);
  int64_t count = 1;
  for (const int64_t dim : shape) {
    count *= dim;
  }
  return count / info.block * info.bytes;
}

GgufWriter::GgufWriter(const std::string& path, const GgufMetadata& metadata,
                       const std::vector<GgufDecl>& tensors)
    : file_(path) {
  std::string header = "GGUF" + raw(kGgufVersion) + raw(static_cast<uint64_t>(tensors.size())) +
                       raw(metadata.count()) + metadata.bytes();
  int64_t offset = 0;
  for (const GgufDecl& tensor : tensors) {
    header += sized(tensor.name) + raw(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) {
      header += raw(static_cast<uint64_t>(tensor.shape[i]));
    }
    header += raw(static_cast<uint32_t>(tensor.type)) + raw(static_cast<uint64_t>(offset));
    bytes_left_.push_back(tensor.bytes());
    offset = round_up(offset + tensor.bytes(), kAlignment);
  }
  header.resize(static_cast<size_t>(round_up(std::ssize(header), kAlignment)), '\0');
  file_.write(std::as_bytes(std::span(header)));
}

void GgufWriter::write(std::span<const std::byte> data) {
  CHECK_LT(tensor_, bytes_left_.size());
  int64_t& left = bytes_left_[tensor_];
  left -= std::ssize(data);
  CHECK_GE(left, 0);
  file_.write(data);
  offset_ += std::ssize(data);
  if (left == 0) {
    const std::string padding(static_cast<size_t>(round_up(offset_, kAlignment) - offset_), '\0');
    file_.write(std::as_bytes(std::span(padding)));
    offset_ += std::ssize(padding);
    ++tensor_;
  }
}

void GgufWriter::finish() {
  CHECK_EQ(tensor_, bytes_left_.size());
  file_.commit();
}

}  // namespace plait
