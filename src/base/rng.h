// Counter-based random numbers: the value at (seed, stream, index) is a pure function, so any rank
// can produce any element of any tensor without producing the others.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace plait {

// FNV-1a, 64 bits: names to stream ids; stable across platforms and releases.
uint64_t hash_name(std::string_view name);

// 64 random bits at (seed, stream, index): two rounds of the SplitMix64 finaliser.
uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index);

// Standard normal at (seed, stream, index) by Box-Muller over two 32-bit halves; the same bits on
// every platform up to libm's rounding.
float random_normal(uint64_t seed, uint64_t stream, uint64_t index);

// A permutation of [0, count) determined by (seed, stream): Fisher-Yates over random_bits.
std::vector<int64_t> random_permutation(uint64_t seed, uint64_t stream, int64_t count);

}  // namespace plait
