// The reduction loops, included once per instruction set by reduce_<isa>.cc. Everything here has
// internal linkage, so that no function compiled with wider instructions can be picked by the
// linker for a plain caller.
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

#include "comm/reduce.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace plait {
namespace {

// Elements per block: accumulators stay in the first-level cache.
constexpr int64_t kBlock = 1024;
constexpr int64_t kFew = 8;

struct F32 {
  using Stored = float;
  using Accumulator = float;
  static void load(const Stored* source, Accumulator* out, int64_t n) {
    std::memcpy(out, source, static_cast<size_t>(n) * sizeof(Stored));
  }
  static void store(const Accumulator* in, Stored* out, int64_t n) {
    std::memcpy(out, in, static_cast<size_t>(n) * sizeof(Stored));
  }
};

template <typename T>
struct Integer {
  using Stored = T;
  using Accumulator = T;
  static void load(const Stored* source, Accumulator* out, int64_t n) {
    std::memcpy(out, source, static_cast<size_t>(n) * sizeof(Stored));
  }
  static void store(const Accumulator* in, Stored* out, int64_t n) {
    std::memcpy(out, in, static_cast<size_t>(n) * sizeof(Stored));
  }
};

struct BF16 {
  using Stored = uint16_t;
  using Accumulator = float;
  static void load(const Stored* source, Accumulator* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      out[i] = std::bit_cast<float>(static_cast<uint32_t>(source[i]) << 16);
    }
  }
  static void store(const Accumulator* in, Stored* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const auto bits = std::bit_cast<uint32_t>(in[i]);
      const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
      const uint32_t nan = (bits >> 16) | 0x40U;
      out[i] = static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
    }
  }
};

struct F16 {
  using Stored = uint16_t;
  using Accumulator = float;
  static void load(const Stored* source, Accumulator* out, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
      const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
    }
    for (; i < n; ++i) {
      out[i] = _cvtsh_ss(source[i]);
    }
#else
    for (; i < n; ++i) {
      out[i] = to_float(Float16{source[i]});
    }
#endif
  }
  static void store(const Accumulator* in, Stored* out, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
      const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), half);
    }
    for (; i < n; ++i) {
      out[i] = _cvtss_sh(in[i], _MM_FROUND_TO_NEAREST_INT);
    }
#else
    for (; i < n; ++i) {
      out[i] = to_f16(in[i]).bits;
    }
#endif
  }
};

template <typename T>
inline T larger(T a, T b) {
  // a != a keeps a NaN that came first; b's NaN fails both comparisons and is taken.
  return a > b || a != a ? a : b;
}

// acc = acc (op) x, over n elements.
template <typename T, bool kIsMax>
inline void combine(T* acc, const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kIsMax) {
      acc[i] = larger(acc[i], x[i]);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      // Unsigned, so that overflow wraps instead of being undefined.
      acc[i] = static_cast<T>(static_cast<uint64_t>(acc[i]) + static_cast<uint64_t>(x[i]));
    } else if constexpr (std::is_same_v<T, int32_t>) {
      acc[i] = static_cast<T>(static_cast<uint32_t>(acc[i]) + static_cast<uint32_t>(x[i]));
    } else {
      acc[i] += x[i];
    }
  }
}

// The same for a handful of elements into one destination, where setting blocks up costs more than
// the sum.
template <typename Codec, bool kIsMax>
void reduce_few(const ReduceArgs& args) {
  using Stored = typename Codec::Stored;
  for (int64_t i = 0; i < args.count; ++i) {
    typename Codec::Accumulator acc;
    typename Codec::Accumulator next;
    Codec::load(reinterpret_cast<const Stored*>(args.sources[0]) + i, &acc, 1);
    for (size_t s = 1; s < args.sources.size(); ++s) {
      Codec::load(reinterpret_cast<const Stored*>(args.sources[s]) + i, &next, 1);
      combine<typename Codec::Accumulator, kIsMax>(&acc, &next, 1);
    }
    Codec::store(&acc, reinterpret_cast<Stored*>(args.destinations[0]) + i, 1);
  }
}

template <typename Codec, bool kIsMax>
void reduce_blocks(const ReduceArgs& args) {
  using Stored = typename Codec::Stored;
  using Accumulator = typename Codec::Accumulator;
  if (args.count <= kFew && args.destinations.size() == 1) {
    return reduce_few<Codec, kIsMax>(args);
  }
  alignas(64) Accumulator acc[kBlock];
  alignas(64) Accumulator next[kBlock];
  for (int64_t begin = 0; begin < args.count; begin += kBlock) {
    const int64_t n = args.count - begin < kBlock ? args.count - begin : kBlock;
    const auto at = [&](const std::byte* base) {
      return reinterpret_cast<const Stored*>(base) + begin;
    };
    Codec::load(at(args.sources[0]), acc, n);
    for (size_t s = 1; s < args.sources.size(); ++s) {
      if constexpr (sizeof(Stored) == sizeof(Accumulator)) {
        combine<Accumulator, kIsMax>(acc, at(args.sources[s]), n);
      } else {
        Codec::load(at(args.sources[s]), next, n);
        combine<Accumulator, kIsMax>(acc, next, n);
      }
    }
    for (std::byte* destination : args.destinations) {
      Codec::store(acc, reinterpret_cast<Stored*>(destination) + begin, n);
    }
  }
}

template <bool kIsMax>
void reduce_dtype(const ReduceArgs& args) {
  switch (args.dtype) {
    case DType::kF32:
      return reduce_blocks<F32, kIsMax>(args);
    case DType::kBF16:
      return reduce_blocks<BF16, kIsMax>(args);
    case DType::kF16:
      return reduce_blocks<F16, kIsMax>(args);
    case DType::kI32:
      return reduce_blocks<Integer<int32_t>, kIsMax>(args);
    case DType::kI64:
      return reduce_blocks<Integer<int64_t>, kIsMax>(args);
  }
}

// Used by the file of each instruction set.
[[maybe_unused]] void reduce_all(const ReduceArgs& args) {
  if (args.op == ReduceOp::kMax) {
    reduce_dtype<true>(args);
  } else {
    reduce_dtype<false>(args);
  }
}

}  // namespace
}  // namespace plait
