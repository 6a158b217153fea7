// Logs as they are: packed, cut, binary, endless lines.
#include "doctor/log_scan.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "doctor/scan_text.h"
#include "doctor/tar_reader.h"
#include "support/test_files.h"

namespace plait {
namespace {

const std::string kFaultLine =
    "EJ0001: [PID: 9] 2024-05-21-11:57:54.167.645 Failed to initialize the HCCP process.\n";

std::string gzipped(const std::string& text) {
  std::string packed(compressBound(text.size()) + 64, '\0');
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string tar_member(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  std::snprintf(header.data() + 100, 8, "%07o", 0644U);
  std::snprintf(header.data() + 124, 12, "%011o", static_cast<unsigned>(content.size()));
  header[156] = '0';
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) {
    sum += static_cast<unsigned char>(c);
  }
  std::snprintf(header.data() + 148, 8, "%06o", sum);
  std::string padded = content;
  padded.resize((content.size() + 511) / 512 * 512, '\0');
  return header + padded;
}

std::vector<ScannedFile> scan(const std::string& path) {
  return scan_logs({path}, test_rules(), {});
}

TEST(LogScan, LineNumbersAndNames) {
  const TestFolder folder;
  write_file_atomic(folder.file("a.log"), "x\ny\n" + kFaultLine);
  const std::vector<ScannedFile> files = scan(folder.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].num_lines, 3);
  ASSERT_EQ(files[0].lines.size(), 1U);
  EXPECT_EQ(files[0].lines[0].number, 3);
}

TEST(LogScan, ArchivesInArchives) {
  const TestFolder folder;
  const std::string tar = tar_member("node1/plog-9_1.log", kFaultLine) +
                          tar_member("node2/rank_3.log.gz", gzipped(kFaultLine)) +
                          std::string(1024, '\0');
  write_file_atomic(folder.file("bundle.tar.gz"), gzipped(tar));
  const std::vector<ScannedFile> files = scan(folder.path());
  ASSERT_EQ(files.size(), 2U);
  EXPECT_TRUE(files[0].name.ends_with("bundle.tar.gz:node1/plog-9_1.log"));
  EXPECT_EQ(files[0].lines.size(), 1U);
  EXPECT_EQ(files[1].lines.size(), 1U);
  EXPECT_EQ(files[1].lines[0].origin.rank, 3);
  EXPECT_EQ(files[0].problem, "");
}

TEST(LogScan, CutArchivesGiveWhatTheyHave) {
  const TestFolder folder;
  std::string noise;
  for (int i = 0; i < 20000; ++i) {
    noise += "line " + std::to_string(i * 7919 % 104729) + "\n";
  }
  const std::string packed = gzipped(kFaultLine + noise);
  write_file_atomic(folder.file("cut.gz"), packed.substr(0, packed.size() / 2));
  const std::vector<ScannedFile> files = scan(folder.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].lines.size(), 1U);
  EXPECT_NE(files[0].problem, "");

  const std::string tar = tar_member("a.log", kFaultLine) + tar_member("b.log", kFaultLine + noise);
  write_file_atomic(folder.file("cut.gz"), tar.substr(0, tar.size() - 2048));
  std::string problems;
  for (const ScannedFile& file : scan(folder.path())) {
    problems += file.problem;
  }
  EXPECT_NE(problems, "");
}

TEST(LogScan, LongLinesAndNoiseAreBounded) {
  const TestFolder folder;
  std::string text(size_t{10} << 20, 'a');
  text += " Failed to initialize the HCCP process\n" + std::string("\0\xff\xfe\x80", 4) + "\n" +
          kFaultLine;
  write_file_atomic(folder.file("a.log"), text);
  const std::vector<ScannedFile> files = scan(folder.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].num_lines, 3);
  ASSERT_EQ(files[0].lines.size(), 1U);
  EXPECT_EQ(files[0].lines[0].number, 3);
  EXPECT_LE(files[0].lines[0].text.size(), kMaxLineText);
}

TEST(LogScan, AFaultFarInALineIsShownWhereItIs) {
  const TestFolder folder;
  write_file_atomic(folder.file("a.log"), std::string(5000, 'x') + kFaultLine);
  const LogLine line = scan(folder.path()).at(0).lines.at(0);
  EXPECT_LE(line.text.size(), kMaxLineText);
  EXPECT_NE(line.text.find("Failed to initialize"), std::string::npos);
}

TEST(LogScan, LinksThatLoopAndFilesThatCannotBeRead) {
  const TestFolder folder;
  std::filesystem::create_directory(folder.file("a"));
  write_file_atomic(folder.file("a/x.log"), kFaultLine);
  std::filesystem::create_directory_symlink("..", folder.file("a/up"));
  std::filesystem::create_symlink("nowhere", folder.file("dangling"));
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(scan(folder.path()).size(), 1U);
  EXPECT_THROW(scan(folder.file("absent")), Error);
}

TEST(LogScan, PartsOfAFileCountItsLines) {
  const TestFolder folder;
  std::string text;
  text.reserve(size_t{140} << 20);
  int64_t lines = 0;
  while (text.size() < (size_t{135} << 20)) {
    text += "a line of a log that says nothing at all, and that with many words in it\n";
    ++lines;
  }
  text += kFaultLine;
  write_file_atomic(folder.file("big.log"), text);
  const std::vector<ScannedFile> files = scan(folder.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].num_lines, lines + 1);
  ASSERT_EQ(files[0].lines.size(), 1U);
  EXPECT_EQ(files[0].lines[0].number, lines + 1);
}

// What a person wrote above a log names causes that the log does not.
TEST(LogScan, AHeadOfNotesIsNotTheLog) {
  const TestFolder folder;
  const auto hits = [&](const std::string& text) {
    write_file_atomic(folder.file("a.log"), text);
    return scan(folder.path()).at(0).lines.size();
  };
  const std::string note = "# cause: " + kFaultLine;
  EXPECT_EQ(hits(note + "# settled: yes\n"), 0U);
  EXPECT_EQ(hits(note + note + kFaultLine), 1U);
  EXPECT_EQ(hits("a line\n" + note), 1U);
  EXPECT_EQ(hits("# " + kFaultLine), 1U);
}

TEST(LogScan, ByteOrderMarkAndCarriageReturns) {
  const TestFolder folder;
  write_file_atomic(folder.file("a.log"),
                    "\xef\xbb\xbf" + kFaultLine.substr(0, kFaultLine.size() - 1) + "\r\n");
  const LogLine line = scan(folder.path()).at(0).lines.at(0);
  EXPECT_EQ(line.text.find('\r'), std::string::npos);
  EXPECT_GT(line.origin.time, 0);
}

TEST(TarReader, RefusesWhatIsNoHeader) {
  EXPECT_FALSE(is_tar_header(std::string(512, 'x')));
  EXPECT_FALSE(is_tar_header(std::string(512, '\0')));
  EXPECT_TRUE(is_tar_header(tar_member("a", "b").substr(0, 512)));
}

}  // namespace
}  // namespace plait
