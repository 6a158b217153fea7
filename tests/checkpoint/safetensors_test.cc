#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "support/test_files.h"

namespace plait {
namespace {

SafetensorsView parse(const std::string& content) {
  return parse_safetensors(std::as_bytes(std::span(content)), "x.safetensors");
}

void expect_corrupt(const std::string& content, const std::string& part) {
  try {
    parse(content);
    ADD_FAILURE() << "accepted, expected an error with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_STREQ(error_code_name(error.code()), "corrupt_data") << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find("x.safetensors: byte "), 0U) << error.message();
  }
}

constexpr const char* kTwo = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"U8","shape":[1,3],"data_offsets":[8,11]}})";

TEST(Safetensors, ReadsAFile) {
  const std::string content = safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F64","shape":[],"data_offsets":[8,16]},)"
      R"("empty":{"dtype":"BOOL","shape":[0,4],"data_offsets":[8,8]},)"
      R"("a\u00e9":{"shape":[2,2],"data_offsets":[0,8],"dtype":"BF16"}}   )",
      std::string(16, '\x01'));
  const SafetensorsView view = parse(content);
  ASSERT_EQ(view.tensors.size(), 3U);
  EXPECT_EQ(view.metadata.at("format"), "pt");
  EXPECT_EQ(view.tensors[0].name, "a\xc3\xa9");
  EXPECT_EQ(view.tensors[0].dtype, DType::kBF16);
  EXPECT_EQ(view.tensors[0].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(view.tensors[0].bytes.size(), 8U);
  EXPECT_EQ(view.tensors[0].file_offset, static_cast<int64_t>(content.size()) - 16);
  EXPECT_EQ(view.tensors[1].name, "empty");
  EXPECT_EQ(view.tensors[1].count(), 0);
  EXPECT_EQ(view.tensors[2].dtype_text, "F64");
  EXPECT_FALSE(view.tensors[2].dtype.has_value());
  EXPECT_EQ(view.tensors[2].count(), 1);
  EXPECT_EQ(parse(safetensors_bytes("{}", "")).tensors.size(), 0U);
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string content = safetensors_bytes(kTwo, std::string(11, 'x'));
  EXPECT_EQ(parse(content).tensors.size(), 2U);
  for (size_t size = 0; size < content.size(); ++size) {
    expect_corrupt(content.substr(0, size), "");
  }
  expect_corrupt(content + "y", "belong to none");
}

TEST(Safetensors, HeaderLengthIsChecked) {
  std::string content = safetensors_bytes(kTwo, std::string(11, 'x'));
  for (const size_t index : {1U, 3U, 7U}) {
    std::string bad = content;
    bad[index] = '\x7f';
    expect_corrupt(bad, "header should be");
  }
  expect_corrupt(std::string(8, '\xff') + content.substr(8), "header should be");
  expect_corrupt(std::string(8, '\0'), "must start with '{'");
  expect_corrupt(safetensors_bytes(" {}", ""), "must start with '{'");
}

// One bad header and a part of the message it gives; the data are 8 bytes.
struct BadHeader {
  const char* header;
  const char* message;
};

TEST(Safetensors, BadHeadersAreNamed) {
  const BadHeader cases[] = {
      {R"({"a")", "not valid JSON"},
      {R"({} x)", "not valid JSON"},
      {R"({"a":{}})", "needs dtype, shape and data_offsets"},
      {R"({"a":[]})", "a list"},
      {R"({"a":3})", "a number"},
      {R"({"a":null})", "null"},
      {R"({"a":"b"})", "a string"},
      {R"({"__metadata__":{"a":1}})", "__metadata__"},
      {R"({"__metadata__":{"a":{}}})", "__metadata__"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":1}})", "'extra' is unknown"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "is doubled"},
      {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", "unknown dtype 'F33'"},
      {R"({"a":{"dtype":1,"shape":[2],"data_offsets":[0,8]}})", "a number as its dtype"},
      {R"({"a":{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}})", "a list as its dtype"},
      {R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", "a number as its shape"},
      {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "a list in a shape"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "negative"},
      {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "2.0 in a shape"},
      {R"({"a":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})", "a string in a shape"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
       "overflows"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,8]}})", "overflows"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", "too large"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", "need 4"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", "the file holds 8"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "claims data bytes 8 to 0"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "two numbers"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", "two numbers"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
       R"("a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
       "'a' occurs twice"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       "overlaps"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       "leaves a gap"},
      {R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", "gap"},
      {R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "4 bytes behind the last"},
      {"{\"\xff\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", "not valid JSON"},
  };
  for (const BadHeader& bad : cases) {
    SCOPED_TRACE(bad.header);
    expect_corrupt(safetensors_bytes(bad.header, std::string(8, 'x')), bad.message);
  }
  // Deep nesting neither recurses nor gets in.
  expect_corrupt(safetensors_bytes("{\"a\":" + std::string(200000, '['), ""), "a list");
}

TEST(Safetensors, OffsetPointsAtTheFault) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F32","shape":[true]}})";
  const size_t fault = header.find("true");
  try {
    parse(safetensors_bytes(header, std::string(8, 'x')));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(fmt::format("byte {}:", 8 + fault + 4)), std::string::npos)
        << error.message();
  }
}

TEST(Safetensors, SubByteTypesAreNotImplemented) {
  try {
    parse(safetensors_bytes(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "x"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotImplemented);
  }
}

TEST(Safetensors, ConvertsRectangles) {
  const float source[] = {1, -2, 3.5F, 0.25F, 65504, -0.0F};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(dtype_name(dtype));
    std::string data;
    for (const float value : source) {
      if (dtype == DType::kF32) {
        data.append(reinterpret_cast<const char*>(&value), 4);
      } else {
        const uint16_t bits = dtype == DType::kBF16 ? to_bf16(value).bits : to_f16(value).bits;
        data.append(reinterpret_cast<const char*>(&bits), 2);
      }
    }
    const char* name = dtype == DType::kF32 ? "F32" : dtype == DType::kBF16 ? "BF16" : "F16";
    const std::string content = safetensors_bytes(
        fmt::format(R"({{"a":{{"dtype":"{}","shape":[2,3],"data_offsets":[0,{}]}}}})", name,
                    data.size()),
        data);
    const SafetensorsView view = parse(content);
    std::vector<float> out(2);
    copy_as_f32(view.tensors[0], {.row_begin = 0, .rows = 2, .col_begin = 2, .cols = 1}, out);
    EXPECT_EQ(out, (std::vector<float>{3.5F, -0.0F}));
    out.resize(6);
    copy_as_f32(view.tensors[0], whole_tensor(view.tensors[0]), out);
    EXPECT_EQ(out[1], -2);
    EXPECT_NEAR(out[4], 65504, dtype == DType::kBF16 ? 256 : 0);
  }
}

TEST(Safetensors, ConversionOfOtherTypesIsRefused) {
  const std::string content = safetensors_bytes(kTwo, std::string(11, 'x'));
  const SafetensorsView view = parse(content);
  std::vector<float> out(3);
  EXPECT_THROW(copy_as_f32(view.tensors[1], whole_tensor(view.tensors[1]), out), Error);
  EXPECT_THROW(read_integers(view.tensors[0]), Error);
}

TEST(Safetensors, WritesWhatItReads) {
  const TestFolder folder;
  const std::string path = folder.file("out.safetensors");
  SafetensorsWriter writer(path,
                           {{.name = "w\"\xc3\xa9", .dtype = DType::kBF16, .shape = {3}},
                            {.name = "empty", .dtype = DType::kF32, .shape = {0, 2}},
                            {.name = "ids", .dtype = DType::kI64, .shape = {2, 2}},
                            {.name = "big", .dtype = DType::kF32, .shape = {1 << 20}}},
                           {{"format", "pt"}});
  EXPECT_FALSE(std::filesystem::exists(path));
  const std::string small("abcdef");
  writer.write(std::as_bytes(std::span(small)).first(1));
  writer.write(std::as_bytes(std::span(small)).subspan(1));
  const std::vector<int64_t> ids = {1, -2, 3, int64_t{1} << 40};
  writer.write(std::as_bytes(std::span(ids)));
  std::vector<float> big(1 << 20);
  for (size_t i = 0; i < big.size(); ++i) {
    big[i] = static_cast<float>(i) * 0.5F;
  }
  writer.write(std::as_bytes(std::span(big)).first(4 * 300'001));
  writer.write(std::as_bytes(std::span(big)).subspan(4 * 300'001));
  writer.finish();

  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 4U);
  EXPECT_EQ(read_integers(file.at("ids")), ids);
  EXPECT_EQ(std::memcmp(file.at("w\"\xc3\xa9").bytes.data(), "abcdef", 6), 0);
  std::vector<float> back(big.size());
  copy_as_f32(file.at("big"), whole_tensor(file.at("big")), back);
  EXPECT_EQ(back, big);
  EXPECT_EQ(writer.file_bytes(), static_cast<int64_t>(file.bytes().size()));
  EXPECT_EQ(writer.crc32c(), crc32c(file.bytes()));
  EXPECT_EQ(file.tensors()[0].file_offset % 64, 0);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  EXPECT_EQ(file.find("absent"), nullptr);
  EXPECT_THROW(file.at("absent"), Error);
}

TEST(Safetensors, AnUnfinishedFileLeavesTheOldOne) {
  const TestFolder folder;
  const std::string path = folder.file("out.safetensors");
  write_file_atomic(path, "old");
  {
    SafetensorsWriter writer(path, {{.name = "a", .dtype = DType::kF32, .shape = {4}}}, {});
    writer.write(std::as_bytes(std::span("abcd", 4)));
    EXPECT_TRUE(std::filesystem::exists(path + ".tmp"));
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(Safetensors, AFullDiskLeavesTheOldFile) {
  if (access("/dev/full", W_OK) != 0) {
    GTEST_SKIP() << "/dev/full is not writable here";
  }
  const TestFolder folder;
  const std::string path = folder.file("out.safetensors");
  write_file_atomic(path, "old");
  // Writes to the temporary file now fail as on a full disk.
  ASSERT_EQ(symlink("/dev/full", (path + ".tmp").c_str()), 0);
  SafetensorsWriter writer(path, {{.name = "a", .dtype = DType::kF32, .shape = {1 << 20}}}, {});
  const std::vector<float> data(1 << 20);
  try {
    writer.write(std::as_bytes(std::span(data)));
    writer.finish();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.message();
    EXPECT_NE(error.message().find(path), std::string::npos);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path + ".tmp")));
}

TEST(Safetensors, WritingIntoAMissingFolderIsNotFound) {
  try {
    SafetensorsWriter writer("/nonexistent/x.safetensors", {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

TEST(SafetensorsDeathTest, TooFewOrTooManyBytesAreBugs) {
  const TestFolder folder;
  const std::string path = folder.file("x.safetensors");
  const std::vector<TensorDecl> decl = {{.name = "a", .dtype = DType::kI32, .shape = {1}}};
  EXPECT_DEATH(SafetensorsWriter(path, decl, {}).finish(), "bytes_left_");
  EXPECT_DEATH(SafetensorsWriter(path, decl, {}).write(std::as_bytes(std::span("abcde", 5))),
               "bytes_left_");
}

}  // namespace
}  // namespace plait
