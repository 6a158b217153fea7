#include "support/test_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"

namespace plait::test {
namespace {

template <typename T>
std::vector<std::byte> encode_as(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = from_float<T>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <typename T>
std::vector<float> decode_as(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = to_float(value);
  }
  return values;
}

}  // namespace

std::unique_ptr<Device> make_test_device(const std::string& name, int num_threads) {
  return make_device(name, {.num_threads = num_threads, .spin_us = 0});
}

std::vector<std::string> all_devices() {
  return device_names();
}

std::vector<std::byte> encode(const std::vector<float>& values, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return encode_as<float>(values);
    case DType::kBF16:
      return encode_as<BFloat16>(values);
    case DType::kF16:
      return encode_as<Float16>(values);
    case DType::kI32:
    case DType::kI64:
      break;
  }
  PLAIT_CHECK_MSG(false, "{} is no float type", dtype_name(dtype));
  return {};
}

std::vector<float> decode(const std::vector<std::byte>& bytes, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return decode_as<float>(bytes);
    case DType::kBF16:
      return decode_as<BFloat16>(bytes);
    case DType::kF16:
      return decode_as<Float16>(bytes);
    case DType::kI32:
    case DType::kI64:
      break;
  }
  PLAIT_CHECK_MSG(false, "{} is no float type", dtype_name(dtype));
  return {};
}

std::vector<float> round_to(const std::vector<float>& values, DType dtype) {
  return decode(encode(values, dtype), dtype);
}

Tensor upload(Device& device, std::vector<int64_t> shape, const std::vector<float>& values,
              DType dtype) {
  Tensor tensor(device, std::move(shape), dtype, MemoryCategory::kWorkspace);
  CHECK_EQ(tensor.count(), static_cast<int64_t>(values.size()));
  const std::vector<std::byte> bytes = encode(values, dtype);
  device.stream().copy_to_device(tensor.ptr(), bytes.data(), tensor.bytes());
  return tensor;
}

Tensor upload_ids(Device& device, const std::vector<int32_t>& ids) {
  Tensor tensor(device, {static_cast<int64_t>(ids.size())}, DType::kI32,
                MemoryCategory::kWorkspace);
  device.stream().copy_to_device(tensor.ptr(), ids.data(), tensor.bytes());
  return tensor;
}

std::vector<float> download(Device& device, const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes()));
  device.stream().copy_to_host(bytes.data(), tensor.ptr(), tensor.bytes());
  device.stream().synchronize();
  return decode(bytes, tensor.dtype());
}

std::vector<float> random_values(uint64_t seed, int64_t count, float scale) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = random_bits(seed, 0, static_cast<uint64_t>(i)) >> 40;
    values[static_cast<size_t>(i)] = (static_cast<float>(bits) * 0x1p-23F - 1) * scale;
  }
  return values;
}

double max_difference(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) {
    return kInfinity;
  }
  double result = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      continue;
    }
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    result = std::isnan(difference) ? kInfinity : std::max(result, difference);
  }
  return result;
}

double max_abs(const std::vector<float>& a) {
  double result = 0;
  for (const float x : a) {
    result = std::max(result, std::abs(static_cast<double>(x)));
  }
  return result;
}

}  // namespace plait::test
