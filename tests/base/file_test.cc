#include "base/file.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/error.h"

namespace plait {
namespace {

TEST(File, AtomicWriteReplacesAndLeavesNoTemporary) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "plait_file_test";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "a.txt").string();
  write_file_atomic(path, "one");
  write_file_atomic(path, "two");
  EXPECT_EQ(read_file(path), "two");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  const MappedFile map(path);
  EXPECT_EQ(map.bytes().size(), 3U);
  std::filesystem::remove_all(folder);
}

TEST(File, ErrorsNameThePath) {
  try {
    read_file("/no/such/file");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(error.message().find("/no/such/file"), std::string::npos);
  }
  EXPECT_THROW(read_file("/"), Error);
  EXPECT_THROW(read_file("/dev/zero"), Error);  // which never ends
  EXPECT_THROW(MappedFile("/"), Error);
  EXPECT_THROW(write_file_atomic("/no/such/folder/x", "y"), Error);
}

}  // namespace
}  // namespace plait
