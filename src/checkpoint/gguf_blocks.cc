#include "checkpoint/gguf_blocks.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"

namespace plait {
namespace {

// Little-endian reads from a block.
class Block {
 public:
  explicit Block(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint32_t u8(size_t at) const { return static_cast<uint32_t>(bytes_[at]); }
  float i8(size_t at) const { return static_cast<float>(static_cast<int8_t>(bytes_[at])); }
  uint32_t u16(size_t at) const { return u8(at) | (u8(at + 1) << 8); }
  uint32_t u32(size_t at) const { return u16(at) | (u16(at + 2) << 16); }
  float f16(size_t at) const { return to_float(Float16{static_cast<uint16_t>(u16(at))}); }

 private:
  std::span<const std::byte> bytes_;
};

// This file is compiled without contraction: a fused multiply-add would give other bits on hosts
// that have one.
float scaled(float scale, float value, float offset) {
  return scale * value + offset;
}

constexpr size_t kHalf = 16;  // nibbles of a 32-element block: the low ones come first

void expand_q4(const Block& block, bool has_minimum, std::span<float> out) {
  const float scale = block.f16(0);
  const float minimum = has_minimum ? block.f16(2) : 0;
  const size_t quants = has_minimum ? 4 : 2;
  for (size_t i = 0; i < kHalf; ++i) {
    const auto low = static_cast<float>(block.u8(quants + i) & 15U);
    const auto high = static_cast<float>(block.u8(quants + i) >> 4);
    out[i] = has_minimum ? scaled(scale, low, minimum) : (low - 8) * scale;
    out[i + kHalf] = has_minimum ? scaled(scale, high, minimum) : (high - 8) * scale;
  }
}

void expand_q5(const Block& block, bool has_minimum, std::span<float> out) {
  const float scale = block.f16(0);
  const float minimum = has_minimum ? block.f16(2) : 0;
  const size_t head = has_minimum ? 4 : 2;
  const uint32_t fifth = block.u32(head);
  for (size_t i = 0; i < 2 * kHalf; ++i) {
    const uint32_t byte = block.u8(head + 4 + i % kHalf);
    const uint32_t quant = (i < kHalf ? byte & 15U : byte >> 4) | (((fifth >> i) & 1U) << 4);
    const auto value = static_cast<float>(quant);
    out[i] = has_minimum ? scaled(scale, value, minimum) : (value - 16) * scale;
  }
}

void expand_q8_0(const Block& block, std::span<float> out) {
  const float scale = block.f16(0);
  for (size_t i = 0; i < 2 * kHalf; ++i) {
    out[i] = block.i8(2 + i) * scale;
  }
}

struct SubBlock {
  float scale = 0, minimum = 0;
};

// Eight 6-bit scales and eight 6-bit minima in twelve bytes from `at` on.
SubBlock sub_block(const Block& block, size_t at, size_t index) {
  uint32_t scale = 0;
  uint32_t minimum = 0;
  if (index < 4) {
    scale = block.u8(at + index) & 63U;
    minimum = block.u8(at + index + 4) & 63U;
  } else {
    scale = (block.u8(at + index + 4) & 15U) | ((block.u8(at + index - 4) >> 6) << 4);
    minimum = (block.u8(at + index + 4) >> 4) | ((block.u8(at + index) >> 6) << 4);
  }
  return {block.f16(0) * static_cast<float>(scale), block.f16(2) * static_cast<float>(minimum)};
}

// Four groups of 64: 32 low nibbles, then 32 high ones, each half with a scale of its own. Q5_K has
// the fifth bits in 32 bytes, two bits a group.
void expand_k4(const Block& block, bool has_fifth, std::span<float> out) {
  static constexpr size_t kScales = 4;
  static constexpr size_t kFifth = 16;
  const size_t quants = has_fifth ? kFifth + 32 : kFifth;
  for (size_t sub = 0; sub < 8; ++sub) {
    const SubBlock part = sub_block(block, kScales, sub);
    for (size_t i = 0; i < 32; ++i) {
      const uint32_t byte = block.u8(quants + (sub / 2) * 32 + i);
      uint32_t quant = sub % 2 == 0 ? byte & 15U : byte >> 4;
      if (has_fifth) {
        quant |= ((block.u8(kFifth + i) >> sub) & 1U) << 4;
      }
      out[sub * 32 + i] = scaled(part.scale, static_cast<float>(quant), -part.minimum);
    }
  }
}

void expand_q6_k(const Block& block, std::span<float> out) {
  static constexpr size_t kHigh = 128;
  static constexpr size_t kScales = 192;
  const float scale = block.f16(208);
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128;  // 64 bytes of low and 32 of high bits each
    const size_t quarter = i % 128 / 32;
    const size_t lane = i % 32;
    const uint32_t low = block.u8(half * 64 + (quarter % 2) * 32 + lane);
    const uint32_t high = block.u8(kHigh + half * 32 + lane);
    const uint32_t quant =
        (quarter < 2 ? low & 15U : low >> 4) | (((high >> (2 * quarter)) & 3U) << 4);
    const float sub_scale = scale * block.i8(kScales + i / 16);
    out[i] = sub_scale * (static_cast<float>(quant) - 32);
  }
}

}  // namespace

std::optional<GgufTypeInfo> gguf_type_info(uint32_t type) {
  static constexpr GgufTypeInfo kTypes[] = {
      {GgufType::kF32, "F32", 1, 4},       {GgufType::kF16, "F16", 1, 2},
      {GgufType::kBF16, "BF16", 1, 2},     {GgufType::kQ4_0, "Q4_0", 32, 18},
      {GgufType::kQ4_1, "Q4_1", 32, 20},   {GgufType::kQ5_0, "Q5_0", 32, 22},
      {GgufType::kQ5_1, "Q5_1", 32, 24},   {GgufType::kQ8_0, "Q8_0", 32, 34},
      {GgufType::kQ4_K, "Q4_K", 256, 144}, {GgufType::kQ5_K, "Q5_K", 256, 176},
      {GgufType::kQ6_K, "Q6_K", 256, 210},
  };
  for (const GgufTypeInfo& info : kTypes) {
    if (static_cast<uint32_t>(info.type) == type) {
      return info;
    }
  }
  return std::nullopt;
}

void expand_block(GgufType type, std::span<const std::byte> bytes, std::span<float> out) {
  const Block block(bytes);
  switch (type) {
    case GgufType::kF32:
      out[0] = std::bit_cast<float>(block.u32(0));
      return;
    case GgufType::kF16:
      out[0] = block.f16(0);
      return;
    case GgufType::kBF16:
      out[0] = to_float(BFloat16{static_cast<uint16_t>(block.u16(0))});
      return;
    case GgufType::kQ4_0:
    case GgufType::kQ4_1:
      return expand_q4(block, type == GgufType::kQ4_1, out);
    case GgufType::kQ5_0:
    case GgufType::kQ5_1:
      return expand_q5(block, type == GgufType::kQ5_1, out);
    case GgufType::kQ8_0:
      return expand_q8_0(block, out);
    case GgufType::kQ4_K:
    case GgufType::kQ5_K:
      return expand_k4(block, type == GgufType::kQ5_K, out);
    case GgufType::kQ6_K:
      return expand_q6_k(block, out);
  }
}

}  // namespace plait
