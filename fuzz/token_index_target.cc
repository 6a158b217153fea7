#include <cstdint>

#include "data/token_file.h"
#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"

namespace plait {

void fuzz_token_index(std::span<const std::byte> input) {
  static constexpr size_t kSizeBytes = 4;
  if (input.size() < kSizeBytes) {
    return;
  }
  int64_t bin_bytes = 0;
  for (size_t i = 0; i < kSizeBytes; ++i) {
    bin_bytes |= std::to_integer<int64_t>(input[i]) << (8 * i);
  }
  accept_or_refuse([&] {
    const TokenIndex index =
        parse_token_index(input.subspan(kSizeBytes),
                          {.file = "input", .bin_file = "input.bin", .bin_bytes = bin_bytes});
    CHECK_EQ(index.num_tokens * token_size(index.type), bin_bytes);
    int64_t previous = 0;
    for (int64_t document = 0; document <= index.num_documents; ++document) {
      const int64_t begin = index.document_begin(document);
      CHECK_LE(previous, begin);
      previous = begin;
    }
    CHECK_EQ(previous, index.num_tokens);
  });
}

}  // namespace plait
