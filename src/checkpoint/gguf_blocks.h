// ggml's tensor formats and what their blocks stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace plait {

// Values as in the files.
// NOLINTBEGIN(readability-identifier-naming): the format's own names.
enum class GgufType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};
// NOLINTEND(readability-identifier-naming)

struct GgufTypeInfo {
  GgufType type = GgufType::kF32;
  const char* name = "";
  int64_t block = 1;  // elements that are stored together
  int64_t bytes = 4;  // of such a block
};
// Absent for a type that is not here.
std::optional<GgufTypeInfo> gguf_type_info(uint32_t type);

inline constexpr int64_t kGgufBlockMax = 256;

// The elements of one block, as ggml defines them: exact products and sums in f32, each rounded
// once. Requires: block.size() and out.size() as gguf_type_info says.
void expand_block(GgufType type, std::span<const std::byte> block, std::span<float> out);

}  // namespace plait
