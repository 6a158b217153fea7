// Damaged, torn and foreign files are named; the checkpoint before them still resumes; a full disk
// loses nothing.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint_rig.h"
#include "support/test_files.h"

namespace plait {
namespace {

using test::Rig;
using test::RigOptions;
using test::run_rig;
using test::save_rig;

namespace fs = std::filesystem;

const RigOptions kSmall{.layout = "dp1"};

// A folder with the checkpoints of steps 1 and 2, to be damaged.
class Damage : public testing::Test {
 protected:
  void SetUp() override {
    save_rig(kSmall, folder_.path(), 1, 1);
    save_rig(kSmall, folder_.path(), 2, 2);
    content_ = read_file(rank_file());
  }

  std::string newest() const { return checkpoint_path(folder_.path(), 2); }
  std::string rank_file() const { return newest() + "/rank-00000.safetensors"; }
  void write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }

  // Loading the newest fails with an error that contains `needle`, and resuming takes the one
  // before. Returns the error's message.
  std::string expect_fallback(const std::string& needle) {
    std::string message;
    run_rig(kSmall, [&](Rig& rig) {
      try {
        load_checkpoint(rig.state(), newest());
        ADD_FAILURE() << "loaded";
      } catch (const Error& error) {
        message = error.message();
      }
      const std::optional<LoadedCheckpoint> loaded = load_latest(rig.state(), folder_.path());
      ASSERT_TRUE(loaded);
      EXPECT_EQ(loaded->meta.step, 1);
      EXPECT_EQ(rig.count_wrong(1), 0);
    });
    EXPECT_NE(message.find(needle), std::string::npos) << message;
    return message;
  }

  TestFolder folder_;
  std::string content_;  // of the newest checkpoint's file
};

TEST_F(Damage, TruncatedFile) {
  const size_t size = content_.size();
  for (const size_t left :
       {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{100}, size / 2, size - 4, size - 1}) {
    write(rank_file(), content_.substr(0, left));
    expect_fallback(fmt::format("rank-00000.safetensors: byte {}: the file ends here", left));
    EXPECT_EQ(find_latest_valid(folder_.path())->step, 1);
    EXPECT_NE(list_checkpoints(folder_.path())[0].problem, "");
  }
  write(rank_file(), content_ + "x");
  expect_fallback(fmt::format("byte {}: the file goes on", size));
}

TEST_F(Damage, FlippedBitInATensor) {
  const SafetensorsFile file(rank_file());
  std::vector<SafeTensor> tensors(file.tensors());
  for (size_t i = 0; i < tensors.size(); i += 11) {
    std::string damaged = content_;
    const int64_t offset = tensors[i].file_offset;
    damaged[static_cast<size_t>(offset + tensors[i].count() * 4 - 1)] ^= 0x10;
    const std::string name = tensors[i].name;
    // The map of `file` sees the new bytes; only names and offsets are used here.
    write(rank_file(), damaged);
    expect_fallback(fmt::format("rank-00000.safetensors: byte {}: tensor '{}'", offset, name));
  }
}

TEST_F(Damage, FlippedBitInTheHeader) {
  const size_t header_end = 8 + static_cast<size_t>(static_cast<uint8_t>(content_[0])) +
                            static_cast<size_t>(static_cast<uint8_t>(content_[1])) * 256;
  int found_by_load = 0;
  for (size_t i = 0; i < header_end; i += i < 8 ? 1 : 199) {
    std::string damaged = content_;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x01);
    write(rank_file(), damaged);
    try {
      CheckpointReader(newest()).verify();
      ADD_FAILURE() << "byte " << i;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
      EXPECT_NE(error.message().find("rank-00000.safetensors"), std::string::npos)
          << error.message();
    }
    run_rig(kSmall, [&](Rig& rig) {
      // Loading may succeed where the damage does not matter (padding); never with wrong values.
      const std::optional<LoadedCheckpoint> loaded = load_latest(rig.state(), folder_.path());
      ASSERT_TRUE(loaded);
      EXPECT_EQ(rig.count_wrong(static_cast<uint64_t>(loaded->meta.step)), 0) << "byte " << i;
      found_by_load += loaded->meta.step == 1 ? 1 : 0;
    });
  }
  EXPECT_GT(found_by_load, 8);
}

TEST_F(Damage, MissingAndForeignFiles) {
  write(rank_file(), read_file(checkpoint_path(folder_.path(), 1) + "/rank-00000.safetensors"));
  expect_fallback("belongs to another checkpoint (step 1, must be 2)");
  fs::remove(rank_file());
  expect_fallback("rank-00000.safetensors: this file of the checkpoint is missing");
  fs::create_directory(rank_file());
  expect_fallback("no regular file");
}

TEST_F(Damage, Manifest) {
  const std::string path = newest() + "/manifest.json";
  const std::string text = read_file(path);
  write(path, text.substr(0, text.size() / 2));
  expect_fallback("manifest.json: byte ");
  write(path, "{\"weight_map\": {}}");
  expect_fallback("manifest.json: byte 0: this is no checkpoint manifest");
  // Of another step: its files do not fit.
  write(path, read_file(checkpoint_path(folder_.path(), 1) + "/manifest.json"));
  EXPECT_NE(list_checkpoints(folder_.path())[0].problem.find("holds step 1"), std::string::npos);
  fs::remove(path);
  expect_fallback("manifest.json");
}

TEST_F(Damage, NothingLeftIsAnErrorAndNoNewStart) {
  fs::remove(rank_file());
  fs::remove(checkpoint_path(folder_.path(), 1) + "/manifest.json");
  run_rig({.layout = "dp2"},
          [&](Rig& rig) { EXPECT_THROW(load_latest(rig.state(), folder_.path()), Error); });
}

TEST(CheckpointFaults, OneRankThatCannotReadFailsAll) {
  const TestFolder folder;
  save_rig({.layout = "tp2"}, folder.path(), 1, 1);
  // Needed by tp rank 1 alone when the layout is the same.
  const std::string path = checkpoint_path(folder.path(), 1) + "/rank-00001.safetensors";
  std::string content = read_file(path);
  content.back() = static_cast<char>(content.back() ^ 1);
  std::ofstream(path, std::ios::binary) << content;
  std::atomic<int> failed = 0;
  run_rig({.layout = "tp2"}, [&](Rig& rig) {
    try {
      load_checkpoint(rig.state(), checkpoint_path(folder.path(), 1));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
      EXPECT_NE(error.message().find("rank 1: "), std::string::npos) << error.message();
      ++failed;
    }
  });
  EXPECT_EQ(failed, 2);
}

// Fills the file system that holds `path` but for `left` bytes.
void fill_disk(const std::string& path, int64_t left) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_GE(fd, 0);
  const std::string block(4096, 'x');
  int64_t written = 0;
  while (write(fd, block.data(), block.size()) == static_cast<ssize_t>(block.size())) {
    written += static_cast<int64_t>(block.size());
  }
  ASSERT_EQ(ftruncate(fd, std::max<int64_t>(written - left, 0)), 0);
  close(fd);
}

// Saving step 2 fails on all ranks with `code`; step 1 stays and step 3 can be saved after
// `repair`.
void expect_failed_save(const std::string& directory, std::optional<ErrorCode> code, bool async,
                        const std::function<void()>& breaks, const std::function<void()>& repair) {
  const RigOptions options{.layout = "dp2.tp2.zero1"};
  std::atomic<int> failed = 0;
  run_rig(options, [&](Rig& rig) {
    rig.fill(1);
    CheckpointSaver saver(rig.state(), {.directory = directory, .keep_last = 1, .async = async});
    saver.save({.step = 1});
    saver.finish();
    if (rig.context().rank() == 0) {
      breaks();
    }
    rig.context().all().barrier();
    try {
      saver.save({.step = 2});
      saver.finish();
    } catch (const Error& error) {
      if (code) {
        EXPECT_EQ(error.code(), *code);
      }
      EXPECT_NE(error.message().find("step 2 was not saved: rank "), std::string::npos);
      EXPECT_NE(error.message().find(".safetensors"), std::string::npos) << error.message();
      ++failed;
    }
    // Step 1 alone, beside what fills the disk.
    EXPECT_EQ(std::distance(fs::directory_iterator(directory), {}),
              fs::exists(directory + "/filler") ? 2 : 1);
    CheckpointReader(checkpoint_path(directory, 1)).verify();
    rig.context().all().barrier();
    if (rig.context().rank() == 0) {
      repair();
    }
    rig.context().all().barrier();
    saver.save({.step = 3});
    saver.finish();
    EXPECT_FALSE(fs::exists(checkpoint_path(directory, 1)));
    load_checkpoint(rig.state(), checkpoint_path(directory, 3));
    EXPECT_EQ(rig.count_wrong(1), 0);
  });
  EXPECT_EQ(failed, 4);
}

class FullDisk : public testing::TestWithParam<bool> {};

TEST_P(FullDisk, FailsOnAllRanksAndLosesNothing) {
  const TestFolder folder;
  if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=4m") != 0) {
    GTEST_SKIP() << "no right to mount a small file system";
  }
  const std::string filler = folder.file("filler");
  expect_failed_save(
      folder.path(), ErrorCode::kResourceExhausted, GetParam(),
      [&] { fill_disk(filler, 60 << 10); }, [&] { fs::remove(filler); });
  EXPECT_EQ(umount(folder.path().c_str()), 0);
}

TEST_P(FullDisk, AFileSizeLimitFailsTheSameWay) {
  const TestFolder folder;
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 5000;
  expect_failed_save(
      folder.path(), std::nullopt, GetParam(), [&] { setrlimit(RLIMIT_FSIZE, &small); },
      [&] { setrlimit(RLIMIT_FSIZE, &before); });
  std::signal(SIGXFSZ, handler);
}
INSTANTIATE_TEST_SUITE_P(Modes, FullDisk, testing::Bool(),
                         [](const auto& test) { return test.param ? "Async" : "Now"; });

TEST(CheckpointFaults, AFolderThatCannotBeMadeIsNamed) {
  const TestFolder folder;
  std::ofstream(folder.file("file")) << "x";
  run_rig({.layout = "dp2"}, [&](Rig& rig) {
    try {
      save_checkpoint(rig.state(), {.directory = folder.file("file")}, {.step = 1});
      ADD_FAILURE() << "saved";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(folder.file("file")), std::string::npos) << error.message();
    }
  });
}

}  // namespace
}  // namespace plait
