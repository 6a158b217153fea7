// Devices and tensors for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace plait::test {

// make_device() with two threads that do not spin.
std::unique_ptr<Device> make_test_device(const std::string& name, int num_threads = 2);

// Names of all devices, for INSTANTIATE_TEST_SUITE_P.
std::vector<std::string> all_devices();

// `values` rounded to `dtype` on the host, as stored bytes.
std::vector<std::byte> encode(const std::vector<float>& values, DType dtype);
std::vector<float> decode(const std::vector<std::byte>& bytes, DType dtype);
// `values` after a trip through `dtype`.
std::vector<float> round_to(const std::vector<float>& values, DType dtype);

// A tensor with the given float values. Queued on the device's stream.
Tensor upload(Device& device, std::vector<int64_t> shape, const std::vector<float>& values,
              DType dtype = DType::kF32);
Tensor upload_ids(Device& device, const std::vector<int32_t>& ids);

// All elements as floats (exact for every float type). Waits for the device's stream.
std::vector<float> download(Device& device, const Tensor& tensor);

// Uniform in [-scale, scale), a pure function of (seed, count, scale).
std::vector<float> random_values(uint64_t seed, int64_t count, float scale = 1);

// Largest |a - b|, infinite where one is NaN and the other is not, or where sizes differ.
double max_difference(const std::vector<float>& a, const std::vector<float>& b);
double max_abs(const std::vector<float>& a);

}  // namespace plait::test
