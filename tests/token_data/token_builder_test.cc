#include "data/token_builder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "support/test_files.h"
#include "support/token_files.h"

namespace plait {
namespace {

void expect_build_error(const BuildOptions& options, ErrorCode code, const std::string& part) {
  try {
    build_token_file(options);
    ADD_FAILURE() << "built, expected '" << part << "'";
  } catch (const Error& error) {
    EXPECT_STREQ(error_code_name(error.code()), error_code_name(code)) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
  EXPECT_FALSE(std::filesystem::exists(options.output + ".bin"));
  EXPECT_FALSE(std::filesystem::exists(options.output + ".idx"));
  EXPECT_FALSE(std::filesystem::exists(options.output + ".bin.tmp"));
}

TEST(Utf8, FindsTheFirstBadByte) {
  constexpr size_t kAllGood = std::string_view::npos;
  EXPECT_EQ(find_invalid_utf8(""), kAllGood);
  EXPECT_EQ(find_invalid_utf8("plain text of more than eight bytes"), kAllGood);
  EXPECT_EQ(find_invalid_utf8("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf"), kAllGood);
  EXPECT_EQ(find_invalid_utf8("12345678\xff"), 8U);
  EXPECT_EQ(find_invalid_utf8("ab\x80"), 2U);            // no lead
  EXPECT_EQ(find_invalid_utf8("ab\xc3"), 2U);            // cut
  EXPECT_EQ(find_invalid_utf8("ab\xe2\x82"), 2U);        // cut
  EXPECT_EQ(find_invalid_utf8("\xc0\xaf"), 0U);          // overlong
  EXPECT_EQ(find_invalid_utf8("\xe0\x9f\xbf"), 0U);      // overlong
  EXPECT_EQ(find_invalid_utf8("\xf0\x8f\xbf\xbf"), 0U);  // overlong
  EXPECT_EQ(find_invalid_utf8("\xed\xa0\x80"), 0U);      // surrogate
  EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0U);  // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("\xf5\x80\x80\x80"), 0U);  // never a lead
  EXPECT_EQ(find_invalid_utf8("\xe2\x82\x41"), 0U);      // third byte
}

TEST(TokenBuilder, WritesMegatronsBytes) {
  const TestFolder folder;
  write_file_atomic(folder.file("in.txt"), "Hi\xc3\xa9");
  const BuildReport report =
      build_token_file({.input = folder.file("in.txt"), .output = folder.file("out")});
  EXPECT_EQ(report.num_documents, 1);
  EXPECT_EQ(report.num_tokens, 5);
  EXPECT_EQ(report.text_bytes, 4);
  EXPECT_TRUE(report.skipped.empty());
  EXPECT_EQ(read_file(folder.file("out.bin")), raw_bytes<uint16_t>({'H', 'i', 0xc3, 0xa9, 256}));
  EXPECT_EQ(read_file(folder.file("out.idx")), index_bytes({.lengths = {5}}));
}

TEST(TokenBuilder, ReadsFoldersInOrderAndSkipsWhatIsNoText) {
  const TestFolder folder;
  const std::filesystem::path root = folder.file("in");
  std::filesystem::create_directories(root / "sub" / "deeper");
  std::filesystem::create_directories(root / ".hidden");
  write_file_atomic((root / "b.txt").string(), "bb");
  write_file_atomic((root / "a.txt").string(), "a");
  write_file_atomic((root / "sub/deeper/c").string(), "ccc");
  write_file_atomic((root / "binary").string(), std::string("x\0y", 3));
  write_file_atomic((root / "empty").string(), "");
  write_file_atomic((root / "latin1").string(), "caf\xe9!");
  write_file_atomic((root / ".hidden/x").string(), "hidden");
  ASSERT_EQ(symlink("nowhere", (root / "dangling").c_str()), 0);
  const BuildReport report =
      build_token_file({.input = root.string(), .output = folder.file("out.bin")});
  EXPECT_EQ(report.num_documents, 3);
  ASSERT_EQ(report.skipped.size(), 3U);
  EXPECT_NE(report.skipped[0].find("binary (byte 1 is zero)"), std::string::npos);
  EXPECT_NE(report.skipped[1].find("empty"), std::string::npos);
  EXPECT_NE(report.skipped[2].find("not UTF-8 (byte 3)"), std::string::npos);
  const TokenFile file(folder.file("out"));
  std::vector<int32_t> tokens(static_cast<size_t>(file.num_tokens()));
  file.read(0, tokens);
  EXPECT_EQ(tokens, (std::vector<int32_t>{'a', 256, 'b', 'b', 256, 'c', 'c', 'c', 256}));
}

TEST(TokenBuilder, BadInputWritesNothing) {
  const TestFolder folder;
  const std::string output = folder.file("out");
  expect_build_error({.input = folder.file("missing"), .output = output}, ErrorCode::kNotFound,
                     "missing");
  write_file_atomic(folder.file("empty"), "");
  expect_build_error({.input = folder.file("empty"), .output = output}, ErrorCode::kInvalidArgument,
                     "empty");
  write_file_atomic(folder.file("binary"), std::string(10, '\0'));
  expect_build_error({.input = folder.file("binary"), .output = output},
                     ErrorCode::kInvalidArgument, "byte 0 is zero");
  expect_build_error({.input = folder.path(), .output = output}, ErrorCode::kInvalidArgument,
                     "holds no text: 2 files");
  write_file_atomic(folder.file("text"), "text");
  expect_build_error({.input = folder.file("text"), .output = "/nonexistent/out"},
                     ErrorCode::kNotFound, "/nonexistent/out");
}

TEST(TokenBuilder, AFullDiskKeepsTheOldPair) {
  if (access("/dev/full", W_OK) != 0) {
    GTEST_SKIP() << "/dev/full is not writable here";
  }
  const TestFolder folder;
  write_file_atomic(folder.file("old.txt"), "old");
  write_file_atomic(folder.file("new.txt"), "newer");
  const std::string output = folder.file("out");
  for (const char* half : {".bin.tmp", ".idx.tmp"}) {
    build_token_file({.input = folder.file("old.txt"), .output = output});
    ASSERT_EQ(symlink("/dev/full", (output + half).c_str()), 0);
    try {
      build_token_file({.input = folder.file("new.txt"), .output = output});
      ADD_FAILURE() << half;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.message();
    }
    EXPECT_EQ(TokenFile(output).num_tokens(), 4);
  }
}

TEST(TokenBuilder, ExportsTheText) {
  const TestFolder folder;
  const std::filesystem::path root = folder.file("in");
  std::filesystem::create_directories(root);
  std::string large;
  for (int i = 0; i < 200'000; ++i) {
    large += static_cast<char>('a' + i % 26);
  }
  write_file_atomic((root / "1").string(), large);
  write_file_atomic((root / "2").string(), "\xe2\x82\xac\n");
  build_token_file({.input = root.string(), .output = folder.file("out")});
  const TokenFile file(folder.file("out"));
  EXPECT_EQ(export_text(file, {.output = folder.file("all.txt"), .split_documents = false}),
            200'004);
  EXPECT_EQ(read_file(folder.file("all.txt")), large + "\xe2\x82\xac\n");
  EXPECT_EQ(export_text(file, {.output = folder.file("docs"), .split_documents = true}), 200'004);
  EXPECT_EQ(read_file(folder.file("docs/document_000000.txt")), large);
  EXPECT_EQ(read_file(folder.file("docs/document_000001.txt")), "\xe2\x82\xac\n");
}

// Words of two letters; the end of a document is the last id of the vocabulary.
TextCodec pair_codec(int64_t vocab_size) {
  TextCodec codec;
  codec.encode = [](std::string_view text, const TextCodec::Put& put) {
    for (size_t i = 0; i < text.size(); i += 2) {
      const int32_t id = (text[i] - 'a') * 26 + text[i + 1] - 'a';
      put(std::span(&id, 1));
    }
  };
  codec.bytes = [](int32_t id) {
    static std::string word;
    word = {static_cast<char>('a' + id / 26), static_cast<char>('a' + id % 26)};
    return std::string_view(word);
  };
  codec.end_of_document = static_cast<int32_t>(vocab_size - 1);
  codec.vocab_size = vocab_size;
  return codec;
}

TEST(TokenBuilder, LargeVocabulariesTakeFourBytesAToken) {
  const TestFolder folder;
  write_file_atomic(folder.file("in.txt"), "abzz");
  BuildOptions options{
      .input = folder.file("in.txt"), .output = folder.file("out"), .codec = pair_codec(65'499)};
  EXPECT_EQ(build_token_file(options).num_tokens, 3);
  EXPECT_EQ(read_file(folder.file("out.bin")), raw_bytes<uint16_t>({1, 675, 65'498}));
  EXPECT_EQ(read_file(folder.file("out.idx")), index_bytes({.lengths = {3}}));
  options.codec = pair_codec(151'669);
  EXPECT_EQ(build_token_file(options).num_tokens, 3);
  EXPECT_EQ(read_file(folder.file("out.bin")), raw_bytes<int32_t>({1, 675, 151'668}));
  EXPECT_EQ(read_file(folder.file("out.idx")),
            index_bytes({.lengths = {3}, .type = 4, .token_bytes = 4}));
  const TokenFile file(folder.file("out"));
  EXPECT_EQ(export_text(file, {.output = folder.file("back.txt"), .codec = options.codec}), 4);
  EXPECT_EQ(read_file(folder.file("back.txt")), "abzz");
}

TEST(TokenBuilder, ForeignTokensAreNotExported) {
  const TestFolder folder;
  write_file_atomic(folder.file("t.bin"), raw_bytes<uint16_t>({65, 300}));
  write_file_atomic(folder.file("t.idx"), index_bytes({.lengths = {2}}));
  try {
    export_text(TokenFile(folder.file("t")),
                {.output = folder.file("out.txt"), .split_documents = false});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message().find("token 1 (document 0) is 300"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(folder.file("out.txt")));
}

}  // namespace
}  // namespace plait
