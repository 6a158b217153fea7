#include "checkpoint/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"
#include "base/utf8.h"
#include "checkpoint/gguf_parts.h"

namespace plait {
namespace {

using enum gguf::ValueType;

// Bytes of a value of fixed size; 0 for the others.
size_t value_size(uint32_t type) {
  static constexpr std::array<size_t, 13> kSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < kSizes.size() ? kSizes[type] : 0;
}

template <typename T>
T load(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// Reads on through the file; every read is checked against what is left.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  size_t position() const { return position_; }
  std::span<const std::byte> take(uint64_t size, const char* what) {
    if (size > bytes_.size() - position_) {
      throw_error(ErrorCode::kCorruptData,
                  "{}: byte {}: {} needs {} bytes, {} are left; the file is cut short or damaged",
                  file_, position_, what, size, bytes_.size() - position_);
    }
    const auto part = bytes_.subspan(position_, static_cast<size_t>(size));
    position_ += static_cast<size_t>(size);
    return part;
  }
  template <typename T>
  T read(const char* what) {
    return load<T>(take(sizeof(T), what));
  }
  std::string read_text(const char* what) {
    const auto size = read<uint64_t>(what);
    const auto part = take(size, what);
    return std::string(reinterpret_cast<const char*>(part.data()), part.size());
  }
  // Passes over `count` values.
  void skip_values(uint32_t type, uint64_t count, const char* what) {
    if (type == kText) {
      for (uint64_t i = 0; i < count; ++i) {
        take(read<uint64_t>(what), what);
      }
      return;
    }
    const size_t size = value_size(type);
    if (size == 0) {
      throw_error(ErrorCode::kCorruptData, "{}: byte {}: {} has the unknown type {}", file_,
                  position_, what, type);
    }
    take(count > bytes_.size() ? bytes_.size() + 1 : count * size, what);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view file_;
  size_t position_ = 0;
};

struct Header {
  uint64_t num_tensors = 0, num_values = 0;
};

Header read_header(Cursor& cursor, std::string_view file) {
  const auto magic = cursor.take(4, "the magic number");
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    throw_error(ErrorCode::kCorruptData, "{}: byte 0: not a GGUF file", file);
  }
  const auto version = cursor.read<uint32_t>("the version");
  if (version != 2 && version != 3) {
    const bool swapped = (version & 0xffffU) == 0;
    throw_error(
        ErrorCode::kNotImplemented, "{}: byte 4: GGUF version {} is not implemented{}", file,
        version,
        swapped ? " (a big-endian file?)" : "; versions 2 and 3 are: convert the file anew");
  }
  Header header;
  header.num_tensors = cursor.read<uint64_t>("the number of tensors");
  header.num_values = cursor.read<uint64_t>("the number of metadata values");
  return header;
}

GgufValue read_value(Cursor& cursor, const std::string& key, std::string_view file) {
  GgufValue value;
  value.type = cursor.read<uint32_t>(key.c_str());
  uint64_t count = 1;
  if (value.type == kArray) {
    value.type = cursor.read<uint32_t>(key.c_str());
    count = cursor.read<uint64_t>(key.c_str());
    if (value.type == kArray || count > INT64_MAX) {
      throw_error(ErrorCode::kCorruptData, "{}: byte {}: {} is a list of lists or has no size",
                  file, cursor.position(), key);
    }
    value.size = static_cast<int64_t>(count);
  }
  Cursor begin = cursor;
  cursor.skip_values(value.type, count, key.c_str());
  value.bytes = begin.take(cursor.position() - begin.position(), key.c_str());
  return value;
}

// Name, shape, type and place of one tensor; its bytes are not known yet.
GgufTensor read_tensor(Cursor& cursor, std::string_view file) {
  static constexpr uint32_t kDimsMax = 4;
  GgufTensor tensor;
  const size_t start = cursor.position();
  tensor.name = cursor.read_text("a tensor's name");
  const auto num_dims = cursor.read<uint32_t>("a tensor's number of dims");
  if (num_dims == 0 || num_dims > kDimsMax) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: tensor '{}' has {} dims, 1 to {} are allowed", file, start,
                tensor.name, num_dims, kDimsMax);
  }
  int64_t count = 1;
  for (uint32_t i = 0; i < num_dims; ++i) {
    const auto dim = cursor.read<uint64_t>("a tensor's dim");
    if (dim == 0 || dim > INT64_MAX ||
        __builtin_mul_overflow(count, static_cast<int64_t>(dim), &count)) {
      throw_error(ErrorCode::kCorruptData, "{}: byte {}: tensor '{}' has an impossible dim {}",
                  file, start, tensor.name, dim);
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(dim));
  }
  const auto type = cursor.read<uint32_t>("a tensor's type");
  const std::optional<GgufTypeInfo> info = gguf_type_info(type);
  if (!info) {
    throw_error(
        ErrorCode::kNotImplemented,
        "{}: byte {}: tensor '{}' has the ggml type {}, which is not implemented; F32, F16, "
        "BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K are",
        file, start, tensor.name, type);
  }
  tensor.type = info->type;
  const auto offset = cursor.read<uint64_t>("a tensor's offset");
  if (offset > INT64_MAX) {
    throw_error(ErrorCode::kCorruptData, "{}: byte {}: tensor '{}' has the impossible offset {}",
                file, start, tensor.name, offset);
  }
  tensor.file_offset = static_cast<int64_t>(offset);
  return tensor;
}

// `data_begin` is where offset 0 lies.
void place_tensor(GgufTensor& tensor, std::span<const std::byte> bytes, int64_t data_begin,
                  std::string_view file) {
  const GgufTypeInfo info = *gguf_type_info(static_cast<uint32_t>(tensor.type));
  if (tensor.cols() % info.block != 0) {
    throw_error(ErrorCode::kCorruptData,
                "{}: tensor '{}' is {}, whose rows must be multiples of {} elements, not {}", file,
                tensor.name, info.name, info.block, tensor.cols());
  }
  int64_t size = 0;
  int64_t end = 0;
  const bool fits = !__builtin_mul_overflow(tensor.count() / info.block, info.bytes, &size) &&
                    !__builtin_add_overflow(tensor.file_offset, data_begin, &tensor.file_offset) &&
                    !__builtin_add_overflow(tensor.file_offset, size, &end) &&
                    end <= static_cast<int64_t>(bytes.size());
  if (!fits) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: tensor '{}' ({}) needs {} bytes, but the file ends at {}; it is cut "
                "short or damaged, fetch it again",
                file, tensor.file_offset, tensor.name, info.name, size, bytes.size());
  }
  tensor.bytes = bytes.subspan(static_cast<size_t>(tensor.file_offset), static_cast<size_t>(size));
}

std::optional<int64_t> integer_at(uint32_t type, std::span<const std::byte> bytes) {
  switch (type) {
    case kUint8:
      return load<uint8_t>(bytes);
    case kInt8:
      return load<int8_t>(bytes);
    case kUint16:
      return load<uint16_t>(bytes);
    case kInt16:
      return load<int16_t>(bytes);
    case kUint32:
      return load<uint32_t>(bytes);
    case kInt32:
      return load<int32_t>(bytes);
    case kInt64:
      return load<int64_t>(bytes);
    case kUint64: {
      const auto value = load<uint64_t>(bytes);
      return value <= INT64_MAX ? std::optional<int64_t>(static_cast<int64_t>(value))
                                : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

template <typename T>
void copy_values(std::span<const std::byte> bytes, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = to_float(load<T>(bytes.subspan(i * sizeof(T))));
  }
}

// Of the types without blocks.
void copy_plain(GgufType type, std::span<const std::byte> bytes, std::span<float> out) {
  switch (type) {
    case GgufType::kF32:
      copy_values<float>(bytes, out);
      return;
    case GgufType::kF16:
      copy_values<Float16>(bytes, out);
      return;
    default:
      CHECK(type == GgufType::kBF16);
      copy_values<BFloat16>(bytes, out);
  }
}

}  // namespace

int64_t GgufTensor::count() const {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    count *= dim;
  }
  return count;
}

GgufView::GgufView(std::span<const std::byte> bytes, std::string_view file) : file_(file) {
  static_assert(std::endian::native == std::endian::little);
  Cursor cursor(bytes, file_);
  const Header header = read_header(cursor, file_);
  for (uint64_t i = 0; i < header.num_values; ++i) {
    const std::string key = cursor.read_text("a metadata key");
    if (!values_.emplace(key, read_value(cursor, key, file_)).second) {
      throw_error(ErrorCode::kCorruptData, "{}: byte {}: the key '{}' is there twice", file_,
                  cursor.position(), key);
    }
  }
  if (integer("split.count").value_or(1) > 1) {
    throw_error(ErrorCode::kNotImplemented,
                "{}: this is one of {} parts of a split model, which is not implemented; join them "
                "with gguf-split --merge",
                file_, *integer("split.count"));
  }
  for (uint64_t i = 0; i < header.num_tensors; ++i) {
    tensors_.push_back(read_tensor(cursor, file_));
    if (!index_.emplace(tensors_.back().name, tensors_.size() - 1).second) {
      throw_error(ErrorCode::kCorruptData, "{}: byte {}: tensor '{}' is there twice", file_,
                  cursor.position(), tensors_.back().name);
    }
  }
  static constexpr int64_t kAlignmentDefault = 32;
  static constexpr int64_t kAlignmentMax = 1 << 20;
  const int64_t alignment = integer("general.alignment").value_or(kAlignmentDefault);
  if (alignment <= 0 || alignment > kAlignmentMax || alignment % 8 != 0) {
    throw_error(ErrorCode::kCorruptData,
                "{}: general.alignment is {}; it must be a multiple of 8, at most {}", file_,
                alignment, kAlignmentMax);
  }
  const auto header_end = static_cast<int64_t>(cursor.position());
  const int64_t data_begin = (header_end + alignment - 1) / alignment * alignment;
  for (GgufTensor& tensor : tensors_) {
    if (tensor.file_offset % alignment != 0) {
      throw_error(ErrorCode::kCorruptData, "{}: tensor '{}' has the offset {}, no multiple of {}",
                  file_, tensor.name, tensor.file_offset, alignment);
    }
    place_tensor(tensor, bytes, data_begin, file_);
  }
}

const GgufTensor* GgufView::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor& GgufView::at(const std::string& name) const {
  const GgufTensor* tensor = find(name);
  if (tensor == nullptr) {
    throw_error(ErrorCode::kCorruptData, "{}: tensor '{}' is missing; there are {} tensors", file_,
                name, tensors_.size());
  }
  return *tensor;
}

const GgufValue* GgufView::value(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void GgufView::wrong_type(const std::string& key, const char* needed) const {
  throw_error(ErrorCode::kCorruptData, "{}: the metadata key {} must be {}", file_, key, needed);
}

std::optional<std::vector<std::string>> GgufView::texts(const std::string& key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return std::nullopt;
  }
  if (found->type != kText) {
    wrong_type(key, "a list of strings");
  }
  std::vector<std::string> texts;
  Cursor cursor(found->bytes, file_);
  while (cursor.position() < found->bytes.size()) {
    texts.push_back(cursor.read_text(key.c_str()));
    if (find_invalid_utf8(texts.back()) != std::string_view::npos) {
      throw_error(ErrorCode::kCorruptData, "{}: {}[{}] is not UTF-8", file_, key, texts.size() - 1);
    }
  }
  return texts;
}

std::optional<std::string> GgufView::text(const std::string& key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return std::nullopt;
  }
  if (found->type != kText || found->size) {
    wrong_type(key, "a string");
  }
  return texts(key)->front();
}

std::optional<std::vector<int64_t>> GgufView::integers(const std::string& key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return std::nullopt;
  }
  const size_t size = value_size(found->type);
  std::vector<int64_t> integers;
  for (size_t at = 0; size > 0 && at < found->bytes.size(); at += size) {
    const std::optional<int64_t> value = integer_at(found->type, found->bytes.subspan(at, size));
    if (!value) {
      wrong_type(key, "an integer or a list of integers");
    }
    integers.push_back(*value);
  }
  if (size == 0) {
    wrong_type(key, "an integer or a list of integers");
  }
  return integers;
}

std::optional<int64_t> GgufView::integer(const std::string& key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return std::nullopt;
  }
  const std::optional<int64_t> integer =
      found->size ? std::nullopt : integer_at(found->type, found->bytes);
  if (!integer) {
    wrong_type(key, "an integer");
  }
  return integer;
}

std::optional<double> GgufView::number(const std::string& key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return std::nullopt;
  }
  if (!found->size && found->type == kFloat32) {
    return load<float>(found->bytes);
  }
  if (!found->size && found->type == kFloat64) {
    return load<double>(found->bytes);
  }
  const std::optional<int64_t> integer =
      found->size ? std::nullopt : integer_at(found->type, found->bytes);
  if (!integer) {
    wrong_type(key, "a number");
  }
  return static_cast<double>(*integer);
}

std::optional<bool> GgufView::flag(const std::string& key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) {
    return std::nullopt;
  }
  if (found->type != kBool || found->size) {
    wrong_type(key, "true or false");
  }
  return load<uint8_t>(found->bytes) != 0;
}

std::string GgufView::required_text(const std::string& key) const {
  const std::optional<std::string> found = text(key);
  if (!found) {
    throw_error(ErrorCode::kCorruptData, "{}: the metadata key {} is missing", file_, key);
  }
  return *found;
}

int64_t GgufView::required_integer(const std::string& key) const {
  const std::optional<int64_t> found = integer(key);
  if (!found) {
    throw_error(ErrorCode::kCorruptData, "{}: the metadata key {} is missing", file_, key);
  }
  return *found;
}

void copy_row_as_f32(const GgufTensor& tensor, const GgufRow& place, std::span<float> out) {
  const GgufTypeInfo info = *gguf_type_info(static_cast<uint32_t>(tensor.type));
  std::array<float, kGgufBlockMax> whole{};
  const int64_t first = place.row * tensor.cols() + place.col;
  const auto count = static_cast<int64_t>(out.size());
  CHECK(place.row >= 0 && place.col >= 0 && place.col + count <= tensor.cols() &&
        first + count <= tensor.count());
  if (info.block == 1) {
    copy_plain(tensor.type, tensor.bytes.subspan(static_cast<size_t>(first * info.bytes)), out);
    return;
  }
  int64_t done = 0;
  while (done < count) {
    const int64_t block = (first + done) / info.block;
    const int64_t skip = (first + done) % info.block;
    const int64_t taken = std::min(info.block - skip, count - done);
    const auto bytes = tensor.bytes.subspan(static_cast<size_t>(block * info.bytes),
                                            static_cast<size_t>(info.bytes));
    const auto target = out.subspan(static_cast<size_t>(done), static_cast<size_t>(taken));
    if (taken == info.block) {
      expand_block(tensor.type, bytes, target);
    } else {
      expand_block(tensor.type, bytes, std::span(whole).first(static_cast<size_t>(info.block)));
      std::copy_n(whole.begin() + skip, taken, target.begin());
    }
    done += taken;
  }
}

}  // namespace plait
