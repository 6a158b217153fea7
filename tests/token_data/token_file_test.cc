#include "data/token_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "support/test_files.h"
#include "support/token_files.h"

namespace plait {
namespace {

TokenIndex parse(const std::string& bytes, int64_t bin_bytes) {
  return parse_token_index(std::as_bytes(std::span(bytes)),
                           {.file = "x.idx", .bin_file = "x.bin", .bin_bytes = bin_bytes});
}

void expect_error(const std::string& bytes, int64_t bin_bytes, const std::string& part,
                  ErrorCode code = ErrorCode::kCorruptData) {
  try {
    parse(bytes, bin_bytes);
    ADD_FAILURE() << "accepted, expected '" << part << "'";
  } catch (const Error& error) {
    EXPECT_STREQ(error_code_name(error.code()), error_code_name(code)) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find("x."), 0U) << error.message();
    EXPECT_NE(error.message().find(": byte "), std::string::npos) << error.message();
  }
}

// `bytes` with `value` at `offset`.
template <typename T>
std::string patched(std::string bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
  return bytes;
}

TEST(TokenIndex, ReadsDocuments) {
  const std::string bytes = index_bytes({.lengths = {3, 0, 2}});
  const TokenIndex index = parse(bytes, 10);
  EXPECT_EQ(index.type, TokenType::kUint16);
  EXPECT_EQ(index.num_tokens, 5);
  EXPECT_EQ(index.num_documents, 3);
  EXPECT_EQ(index.document_begin(0), 0);
  EXPECT_EQ(index.document_begin(1), 3);
  EXPECT_EQ(index.document_begin(2), 3);
  EXPECT_EQ(index.document_begin(3), 5);
  EXPECT_EQ(parse(index_bytes({}), 0).num_tokens, 0);
}

TEST(TokenIndex, EveryTruncationIsAnError) {
  const std::string bytes = index_bytes({.lengths = {3, 2}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    expect_error(bytes.substr(0, size), 10, "");
  }
  expect_error(bytes + "x", 10, "need");
  expect_error(bytes, 8, "ends at byte 10 of x.bin, which has 8");
  expect_error(bytes, 12, "2 bytes behind the last sequence");
}

TEST(TokenIndex, BadFieldsAreNamed) {
  const std::string bytes = index_bytes({.lengths = {3, 2}});
  constexpr size_t kLengths = 34;
  constexpr size_t kPointers = kLengths + 8;
  constexpr size_t kDocuments = kPointers + 16;
  expect_error(patched(bytes, 0, 'X'), 10, "magic");
  expect_error(patched<uint64_t>(bytes, 9, 2), 10, "version 2");
  expect_error(patched<char>(bytes, 17, 0), 10, "token type 0");
  expect_error(patched<char>(bytes, 17, 99), 10, "token type 99");
  expect_error(patched<char>(bytes, 17, 6), 10, "float", ErrorCode::kNotImplemented);
  expect_error(patched<uint64_t>(bytes, 18, UINT64_MAX), 10, "does not fit");
  expect_error(patched<uint64_t>(bytes, 18, uint64_t{1} << 61), 10, "does not fit");
  expect_error(patched<uint64_t>(bytes, 26, UINT64_MAX / 8 + 1), 10, "does not fit");
  expect_error(patched<uint64_t>(bytes, 26, 0), 10, "documents is empty");
  expect_error(patched<uint64_t>(bytes, 26, 2), 10, "need");
  expect_error(patched<int32_t>(bytes, kLengths, -1), 10, "length -1");
  expect_error(patched<int32_t>(bytes, kLengths, INT32_MAX), 10, "which has 10");
  expect_error(patched<int64_t>(bytes, kPointers, 2), 10, "starts at byte 2");
  expect_error(patched<int64_t>(bytes, kPointers + 8, INT64_MIN), 10, "sequence 1 starts");
  expect_error(patched<int64_t>(bytes, kDocuments, 1), 10, "document 0");
  expect_error(patched<int64_t>(bytes, kDocuments + 8, 3), 10, "document 1");
  expect_error(patched<int64_t>(bytes, kDocuments + 8, -1), 10, "document 1");
  expect_error(patched<int64_t>(bytes, kDocuments + 16, 1), 10, "last document ends");
  expect_error(bytes + std::string(2, '\0'), 10, "multimodal", ErrorCode::kNotImplemented);
}

struct TypeCase {
  char code;
  std::string bin;
};

TEST(TokenFile, ReadsEveryIntegerType) {
  const TypeCase cases[] = {
      {1, raw_bytes<uint8_t>({7, 0, 100})}, {2, raw_bytes<int8_t>({7, 0, 100})},
      {3, raw_bytes<int16_t>({7, 0, 100})}, {4, raw_bytes<int32_t>({7, 0, 100})},
      {5, raw_bytes<int64_t>({7, 0, 100})}, {8, raw_bytes<uint16_t>({7, 0, 100})}};
  for (const TypeCase& type : cases) {
    SCOPED_TRACE(static_cast<int>(type.code));
    const TestFolder folder;
    const auto size = static_cast<int64_t>(type.bin.size() / 3);
    write_file_atomic(folder.file("t.bin"), type.bin);
    write_file_atomic(folder.file("t.idx"),
                      index_bytes({.lengths = {1, 2}, .type = type.code, .token_bytes = size}));
    for (const char* name : {"t", "t.bin", "t.idx"}) {
      const TokenFile file(folder.file(name));
      EXPECT_EQ(file.num_tokens(), 3);
      std::vector<int32_t> tokens(2);
      file.read(1, tokens);
      EXPECT_EQ(tokens, (std::vector<int32_t>{0, 100}));
      EXPECT_EQ(file.document_of(0), 0);
      EXPECT_EQ(file.document_of(1), 1);
      EXPECT_EQ(file.document_of(2), 1);
    }
  }
}

TEST(TokenFile, ImpossibleTokensAreNamed) {
  const TestFolder folder;
  write_file_atomic(folder.file("t.bin"), raw_bytes<int64_t>({1, int64_t{1} << 31, -1}));
  write_file_atomic(folder.file("t.idx"),
                    index_bytes({.lengths = {3}, .type = 5, .token_bytes = 8}));
  const TokenFile file(folder.file("t"));
  std::vector<int32_t> token(1);
  file.read(0, token);
  for (const int64_t bad : {1, 2}) {
    try {
      file.read(bad, token);
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(fmt::format("t.bin: byte {}:", 8 * bad)), std::string::npos)
          << error.message();
    }
  }
}

TEST(TokenFile, AMissingHalfIsNotFound) {
  const TestFolder folder;
  write_file_atomic(folder.file("t.idx"), index_bytes({}));
  try {
    const TokenFile file(folder.file("t"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(error.message().find("t.bin"), std::string::npos);
  }
}

TEST(TokenFile, ContentIdFollowsTheBytesAndNotTheName) {
  const TestFolder folder;
  for (const int32_t tokens : {1000, 9 << 20}) {  // all of it is looked at, or pieces
    std::vector<uint16_t> values(static_cast<size_t>(tokens));
    const auto id = [&](const std::string& name, const std::vector<int32_t>& lengths) {
      write_file_atomic(folder.file(name + ".bin"), raw_bytes(values));
      write_file_atomic(folder.file(name + ".idx"), index_bytes({.lengths = lengths}));
      return TokenFile(folder.file(name)).content_id();
    };
    const std::string first = id("a", {tokens});
    EXPECT_EQ(id("b", {tokens}), first);
    EXPECT_EQ(first.find(std::to_string(tokens) + " tokens in 1 documents"), 0U) << first;
    EXPECT_NE(id("b", {tokens - 7, 7}), first);
    values.back() = 1;
    EXPECT_NE(id("b", {tokens}), first);
  }
}

}  // namespace
}  // namespace plait
