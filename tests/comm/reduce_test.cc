// The reduction of every instruction set that was compiled, against the plain one, bit by bit; and
// the plain one against sums that are known.
#include "comm/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/cpu_info.h"
#include "base/rng.h"

namespace plait {
namespace {

using Reduce = void (*)(const ReduceArgs&);
using Bytes = std::vector<std::byte>;

struct Isa {
  const char* name = "";
  Reduce reduce = nullptr;
  bool CpuInfo::*present = nullptr;
};

std::vector<Isa> compiled_isas() {
  std::vector<Isa> isas;
#if defined(__x86_64__)
  isas.push_back({"avx2", internal::reduce_avx2, &CpuInfo::avx2});
  isas.push_back({"avx512", internal::reduce_avx512, &CpuInfo::avx512});
#endif
  return isas;
}

template <typename T>
void put(T value, int64_t index, Bytes& bytes) {
  std::memcpy(bytes.data() + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// Random numbers of many sizes and signs; among floats also zeros, infinities, the largest and
// subnormal ones, and NaNs.
Bytes random_source(DType dtype, int64_t count, int source) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float special[] = {0.0F,  -0.0F,  kInf,  -kInf, std::numeric_limits<float>::quiet_NaN(),
                           3e38F, -3e38F, 1e-40F};
  Bytes bytes(static_cast<size_t>(count * dtype_size(dtype)));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = random_bits(11, static_cast<uint64_t>(source), static_cast<uint64_t>(i));
    const float sign = bits % 2 == 0 ? 1.0F : -1.0F;
    float value = sign * static_cast<float>(bits >> 40) * std::ldexp(1.0F, -int(bits / 2 % 40));
    if (bits / 256 % 16 == 0) {
      value = special[bits / 4096 % 8];
    }
    switch (dtype) {
      case DType::kF32:
        put(value, i, bytes);
        break;
      case DType::kBF16:
        put(to_bf16(value), i, bytes);
        break;
      case DType::kF16:
        put(to_f16(value), i, bytes);
        break;
      case DType::kI32:
        put(static_cast<int32_t>(bits), i, bytes);
        break;
      case DType::kI64:
        put(static_cast<int64_t>(bits), i, bytes);
        break;
    }
  }
  return bytes;
}

struct Case {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int64_t count = 0;
  int sources = 0;
  int offset = 0;         // of every buffer, in elements
  bool in_place = false;  // the second source is a destination
};

// Which of two NaNs a sum keeps is the compiler's choice.
template <typename T>
void make_nans_equal(Bytes& bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if (std::isnan(to_float(value))) {
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), sizeof(T), std::byte{0xff});
    }
  }
}

// The results in two destinations, one after the other.
Bytes run(Reduce reduce, const Case& c) {
  const auto offset = static_cast<std::ptrdiff_t>(c.offset * dtype_size(c.dtype));
  std::vector<Bytes> buffers;
  std::vector<const std::byte*> sources;
  for (int s = 0; s < c.sources; ++s) {
    Bytes buffer(static_cast<size_t>(offset));
    const Bytes values = random_source(c.dtype, c.count, s);
    buffer.insert(buffer.end(), values.begin(), values.end());
    buffers.push_back(std::move(buffer));
    sources.push_back(buffers.back().data() + offset);
  }
  const int64_t bytes = c.count * dtype_size(c.dtype);
  Bytes out(static_cast<size_t>(offset + bytes));
  std::vector<std::byte*> destinations = {out.data() + offset};
  if (c.in_place) {
    destinations.push_back(buffers[1].data() + offset);
  }
  reduce({sources, destinations, c.count, c.dtype, c.op});
  Bytes results;
  for (const std::byte* destination : destinations) {
    results.insert(results.end(), destination, destination + bytes);
  }
  if (c.dtype == DType::kF32) {
    make_nans_equal<float>(results);
  } else if (c.dtype == DType::kBF16) {
    make_nans_equal<BFloat16>(results);
  } else if (c.dtype == DType::kF16) {
    make_nans_equal<Float16>(results);
  }
  return results;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kI64}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      for (const int64_t count : {1, 7, 8, 9, 31, 64, 1023, 1024, 1025, 5003}) {
        for (const int sources : {1, 2, 3, 8}) {
          for (const int offset : {0, 1}) {
            const bool in_place = sources > 1 && count % 2 == 1;
            list.push_back({dtype, op, count, sources, offset, in_place});
          }
        }
      }
    }
  }
  return list;
}

class ReduceIsa : public testing::TestWithParam<Isa> {};

TEST_P(ReduceIsa, HasThePlainBits) {
  if (!(cpu_info().*GetParam().present)) {
    GTEST_SKIP() << "not run: this CPU has no " << GetParam().name;
  }
  for (const Case& c : cases()) {
    ASSERT_EQ(run(GetParam().reduce, c), run(internal::reduce_plain, c))
        << dtype_name(c.dtype) << (c.op == ReduceOp::kSum ? " sum" : " max") << " of " << c.count
        << " from " << c.sources << ", offset " << c.offset;
  }
}

INSTANTIATE_TEST_SUITE_P(Compiled, ReduceIsa, testing::ValuesIn(compiled_isas()),
                         [](const testing::TestParamInfo<Isa>& param) {
                           return std::string(param.param.name);
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReduceIsa);

template <typename T>
std::vector<T> reduce_values(const std::vector<std::vector<T>>& sources, DType dtype, ReduceOp op) {
  std::vector<const std::byte*> inputs;
  for (const std::vector<T>& source : sources) {
    inputs.push_back(reinterpret_cast<const std::byte*>(source.data()));
  }
  std::vector<T> result(sources.front().size());
  auto* const out = reinterpret_cast<std::byte*>(result.data());
  internal::reduce_plain({inputs, {&out, 1}, static_cast<int64_t>(result.size()), dtype, op});
  return result;
}

TEST(ReducePlain, AddsInRankOrder) {
  // 1e8 + 1 - 1e8 is 0 in this order, 1 in another.
  EXPECT_EQ(reduce_values<float>({{1e8F, 1}, {1, 2}, {-1e8F, 3}}, DType::kF32, ReduceOp::kSum),
            (std::vector<float>{0, 6}));
  EXPECT_EQ(reduce_values<float>({{1e8F}, {-1e8F}, {1}}, DType::kF32, ReduceOp::kSum),
            (std::vector<float>{1}));
}

TEST(ReducePlain, RoundsSixteenBitTypesOnceAtTheEnd) {
  // Half an ulp each: lost one by one, together an ulp.
  const std::vector<std::vector<BFloat16>> bf16 = {
      {to_bf16(1)}, {to_bf16(0x1p-8F)}, {to_bf16(0x1p-8F)}};
  EXPECT_EQ(to_float(reduce_values(bf16, DType::kBF16, ReduceOp::kSum)[0]), 1 + 0x1p-7F);
  const std::vector<std::vector<Float16>> f16 = {
      {to_f16(1)}, {to_f16(0x1p-11F)}, {to_f16(0x1p-11F)}};
  EXPECT_EQ(to_float(reduce_values(f16, DType::kF16, ReduceOp::kSum)[0]), 1 + 0x1p-10F);
}

TEST(ReducePlain, MaximumKeepsNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> result =
      reduce_values<float>({{1, nan, -1}, {2, 0, nan}, {-3, 5, 0}}, DType::kF32, ReduceOp::kMax);
  EXPECT_EQ(result[0], 2);
  EXPECT_NE(result[1], result[1]);
  EXPECT_NE(result[2], result[2]);
}

TEST(ReducePlain, IntegersWrap) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(reduce_values<int64_t>({{kMost, 3}, {1, 4}}, DType::kI64, ReduceOp::kSum),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 7}));
}

}  // namespace
}  // namespace plait
