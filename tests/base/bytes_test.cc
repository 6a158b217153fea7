#include "base/bytes.h"

#include <string_view>

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(Bytes, Crc32cMatchesThePublishedCheckValue) {
  const std::string_view text = "123456789";
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  EXPECT_EQ(crc32c(bytes), 0xe3069283U);
  EXPECT_EQ(crc32c(bytes.subspan(4), crc32c(bytes.first(4))), 0xe3069283U);
}

TEST(Bytes, SizesAreReadable) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(3 * 1024 * 1024 / 2), "1.50 MiB");
}

}  // namespace
}  // namespace plait
