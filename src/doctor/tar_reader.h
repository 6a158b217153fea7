// Members of a tar archive (ustar, GNU and pax names), read in one pass.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "doctor/byte_reader.h"

namespace plait {

inline constexpr size_t kTarBlock = 512;  // bytes

// True if the 512 bytes look like a tar header (their checksum is right).
bool is_tar_header(std::string_view block);

// Calls `visit` for each regular file; what it leaves unread is skipped. Returns what was wrong
// with the archive, "" if nothing: what came before the damage has been visited.
using TarVisitor = std::function<void(const std::string& name, ByteReader& content)>;
std::string read_tar(ByteReader& reader, const TarVisitor& visit);

}  // namespace plait
