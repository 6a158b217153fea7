#include "base/rng.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace plait {
namespace {

uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
  return mix(mix(seed ^ mix(stream)) + index);
}

float random_normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const uint64_t bits = random_bits(seed, stream, index);
  const double u = (static_cast<double>(bits >> 32) + 1.0) * 0x1p-32;
  const double v = static_cast<double>(bits & 0xffffffffULL) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

std::vector<int64_t> random_permutation(uint64_t seed, uint64_t stream, int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    order[static_cast<size_t>(i)] = i;
  }
  for (int64_t i = count - 1; i > 0; --i) {
    const auto bound = static_cast<uint64_t>(i) + 1;
    const uint64_t j = random_bits(seed, stream, static_cast<uint64_t>(i)) % bound;
    std::swap(order[static_cast<size_t>(i)], order[j]);
  }
  return order;
}

}  // namespace plait
