// The JSON header of a safetensors file, parsed but not yet checked against the data. Internal.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

// Where the header begins, behind the eight bytes that count it.
inline constexpr int64_t kHeaderStart = 8;

struct HeaderEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // data_offsets
  int64_t file_offset = 0;     // just behind the entry's name, for messages
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;
  std::map<std::string, std::string> metadata;
};

// `text` starts at kHeaderStart of `file`. Errors: kCorruptData with file and byte offset.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::string_view file);

}  // namespace plait
