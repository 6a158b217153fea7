// Token files for tests, made byte by byte and so independent of the program's own writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace plait {

template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return bytes;
}

// An .idx file whose documents are one sequence each, of these lengths, in a .bin file of tokens of
// `token_bytes` bytes with Megatron's code `type`.
struct IndexSpec {
  std::vector<int32_t> lengths;
  char type = 8;
  int64_t token_bytes = 2;
};
inline std::string index_bytes(const IndexSpec& spec) {
  std::vector<int64_t> pointers;
  std::vector<int64_t> documents = {0};
  int64_t pointer = 0;
  for (const int32_t length : spec.lengths) {
    pointers.push_back(pointer);
    pointer += length * spec.token_bytes;
    documents.push_back(static_cast<int64_t>(pointers.size()));
  }
  const std::vector<uint64_t> counts = {pointers.size(), documents.size()};
  return std::string("MMIDIDX\0\0", 9) + raw_bytes<uint64_t>({1}) + spec.type + raw_bytes(counts) +
         raw_bytes(spec.lengths) + raw_bytes(pointers) + raw_bytes(documents);
}

}  // namespace plait
