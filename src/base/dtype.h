// Element types, and the 16-bit floats as plain structs (compilers here have no portable ones).
#pragma once

#include <bit>
#include <cstdint>

namespace plait {

enum class DType : uint8_t { kF32, kBF16, kF16, kI32, kI64 };

// 4, 2, 2, 4, 8.
constexpr int64_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kI64:
      return 8;
  }
  return 0;
}

// "f32", "bf16", "f16", "i32", "i64".
constexpr const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
  }
  return "?";
}

struct BFloat16 {
  uint16_t bits = 0;
};
struct Float16 {
  uint16_t bits = 0;
};

inline float to_float(float x) {
  return x;
}
inline float to_float(BFloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
// IEEE half to float, exact; subnormals, Inf and NaN included.
inline float to_float(Float16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000U) << 16;
  const uint32_t rest = x.bits & 0x7fffU;
  if (rest >= 0x7c00U) {
    return std::bit_cast<float>(sign | 0x7f800000U | ((rest & 0x3ffU) << 13));
  }
  // Scaling by 2^112 moves the exponent bias from 15 to 127 and normalises subnormals.
  const float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// Round to nearest even; NaN stays NaN.
inline BFloat16 to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40U)};
  }
  return {static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}
// Round to nearest even; overflow to Inf; NaN stays NaN.
inline Float16 to_f16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return {static_cast<uint16_t>(sign | 0x7e00U)};
  }
  if (magnitude >= 0x477ff000U) {  // rounds to 65536 or more
    return {static_cast<uint16_t>(sign | 0x7c00U)};
  }
  if (magnitude < 0x38800000U) {  // subnormal half: let the float adder round
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U))};
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13))};
}

template <typename T>
T from_float(float x);
template <>
inline float from_float<float>(float x) {
  return x;
}
template <>
inline BFloat16 from_float<BFloat16>(float x) {
  return to_bf16(x);
}
template <>
inline Float16 from_float<Float16>(float x) {
  return to_f16(x);
}

}  // namespace plait
