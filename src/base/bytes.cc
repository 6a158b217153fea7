#include "base/bytes.h"

#include <array>
#include <cstring>

#include <fmt/format.h>

namespace plait {
namespace {

// Slicing-by-8 tables for the reflected polynomial 0x82f63b78.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

CrcTables make_tables() {
  CrcTables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
    }
    tables[0][i] = crc;
  }
  for (uint32_t i = 0; i < 256; ++i) {
    for (size_t t = 1; t < 8; ++t) {
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xffU];
    }
  }
  return tables;
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while ((value >= 1024.0 || value <= -1024.0) && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

uint32_t crc32c(std::span<const std::byte> data, uint32_t crc) {
  static const CrcTables tables = make_tables();
  crc = ~crc;
  const std::byte* p = data.data();
  size_t left = data.size();
  while (left >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    word ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) {
      crc ^= tables[7 - i][(word >> (8 * i)) & 0xffU];
    }
    p += 8;
    left -= 8;
  }
  while (left-- > 0) {
    crc = (crc >> 8) ^ tables[0][(crc ^ static_cast<uint32_t>(*p++)) & 0xffU];
  }
  return ~crc;
}

}  // namespace plait
