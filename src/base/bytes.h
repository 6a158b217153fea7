// Human-readable sizes and a checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace plait {

// "1.50 GiB", "512 B".
std::string format_bytes(int64_t bytes);

// CRC-32C (Castagnoli), as in iSCSI; `crc` continues an earlier call.
uint32_t crc32c(std::span<const std::byte> data, uint32_t crc = 0);

}  // namespace plait
