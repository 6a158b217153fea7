// Runs a fast kernel and its plain version on copies of the same memory and compares all of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "device/cpu/fast/fast_kernels.h"
#include "device/cpu/fast/isa.h"
#include "device/cpu/plain/plain_kernels.h"
#include "support/test_device.h"

namespace plait::test {

// Host memory of one argument.
struct HostArray {
  std::vector<std::byte> bytes;
  DType dtype = DType::kF32;
  DevicePtr ptr() { return DevicePtr(bytes.data()); }
  std::vector<float> values() const { return decode(bytes, dtype); }
};
using Memory = std::vector<HostArray>;

inline HostArray random_array(uint64_t seed, int64_t count, DType dtype, float scale = 1) {
  return {encode(random_values(seed, count, scale), dtype), dtype};
}
inline HostArray constant_array(int64_t count, DType dtype, float value) {
  return {encode(std::vector<float>(static_cast<size_t>(count), value), dtype), dtype};
}
inline HostArray id_array(const std::vector<int32_t>& ids) {
  HostArray array;
  array.bytes.resize(ids.size() * sizeof(int32_t));
  std::memcpy(array.bytes.data(), ids.data(), array.bytes.size());
  return array;  // compared as floats, which tells equal bits from different ones
}

// For each instruction set of this CPU and each float type.
class FastKernelTest : public testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  void SetUp() override { cpu::fast::force_isa(std::get<0>(GetParam())); }
  void TearDown() override { cpu::fast::force_isa(""); }
  DType dtype() const { return std::get<1>(GetParam()); }

  // `args` makes the kernel's arguments from the memory. Values may differ by one unit in the last
  // place of their type plus `tolerance` of the array's largest. Thread counts must agree exactly.
  template <typename Args>
  void compare(void (*plain)(const Args&), void (*fast)(const Args&, ThreadPool&),
               const Memory& memory, const std::function<Args(Memory&)>& args,
               double tolerance = 2e-6) {
    Memory expected = memory;
    plain(args(expected));
    Memory actual = memory;
    run_on(1, fast, actual, args);
    for (size_t i = 0; i < memory.size(); ++i) {
      expect_near(expected[i], actual[i], tolerance, i);
    }
    Memory again = memory;
    run_on(3, fast, again, args);
    for (size_t i = 0; i < memory.size(); ++i) {
      EXPECT_EQ(actual[i].bytes, again[i].bytes) << "array " << i << " depends on the threads";
    }
  }

 private:
  template <typename Args>
  void run_on(int num_threads, void (*fast)(const Args&, ThreadPool&), Memory& memory,
              const std::function<Args(Memory&)>& args) {
    ThreadPool pool({.num_threads = num_threads, .spin_us = 0});
    fast(args(memory), pool);
  }

  static void expect_near(const HostArray& expected, const HostArray& actual, double tolerance,
                          size_t index) {
    const std::vector<float> a = expected.values();
    const std::vector<float> b = actual.values();
    const double ulp = expected.dtype == DType::kF32   ? 1e-6
                       : expected.dtype == DType::kF16 ? 0x1p-10
                                                       : 0x1p-7;
    double largest = 0;
    for (const float x : a) {
      largest = std::isfinite(x) ? std::max(largest, std::abs(static_cast<double>(x))) : largest;
    }
    for (size_t i = 0; i < a.size(); ++i) {
      const double limit = std::abs(static_cast<double>(a[i])) * ulp + largest * tolerance;
      const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                        std::abs(static_cast<double>(a[i]) - b[i]) <= limit;
      ASSERT_TRUE(same) << "array " << index << " element " << i << ": plain " << a[i] << ", fast "
                        << b[i];
    }
  }
};

inline std::string isa_and_dtype(
    const testing::TestParamInfo<std::tuple<std::string, DType>>& param) {
  return std::get<0>(param.param) + "_" + dtype_name(std::get<1>(param.param));
}

inline auto each_isa_and_dtype() {
  return testing::Combine(testing::ValuesIn(cpu::fast::isa_names()),
                          testing::Values(DType::kF32, DType::kBF16, DType::kF16));
}

}  // namespace plait::test
