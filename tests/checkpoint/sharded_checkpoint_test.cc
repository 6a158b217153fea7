// What one layout saves, every layout loads: bit by bit, on every device.
#include "checkpoint/sharded_checkpoint.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint_rig.h"
#include "support/test_files.h"

namespace plait {
namespace {

using test::Rig;
using test::RigOptions;
using test::run_rig;
using test::save_rig;

std::vector<RigOptions> layouts(bool tied) {
  return {
      {.layout = "dp1", .tied = tied},
      {.layout = "dp2", .tied = tied, .bucket_count = 200},
      {.layout = "dp2.zero1", .tied = tied, .vocab_multiple = 8},
      {.layout = "dp4.zero1", .tied = tied, .bucket_count = 10000, .dtype = DType::kBF16},
      {.layout = "tp2.sp", .tied = tied, .device = "guard"},
      {.layout = "tp4", .tied = tied, .vocab_multiple = 16},
      {.layout = "pp2", .tied = tied, .stage_layers = {1, 3}, .dtype = DType::kBF16},
      {.layout = "pp2.vpp2", .tied = tied},
      {.layout = "dp2.tp2.pp2.sp.zero1", .tied = tied, .device = "guard"},
  };
}

// Elements of all ranks that differ from the values of `seed` after loading `path`.
int64_t count_wrong_after_load(const RigOptions& options, const std::string& path, uint64_t seed) {
  std::atomic<int64_t> wrong = 0;
  run_rig(options, [&](Rig& rig) {
    rig.fill(seed + 1000);
    EXPECT_GT(rig.count_wrong(seed), 0);
    load_checkpoint(rig.state(), path);
    wrong += rig.count_wrong(seed);
  });
  return wrong;
}

class AnyLayout : public testing::TestWithParam<bool> {};

TEST_P(AnyLayout, LoadsWhatAnyLayoutSaved) {
  const TestFolder folder;
  const std::vector<RigOptions> all = layouts(GetParam());
  for (size_t a = 0; a < all.size(); ++a) {
    const auto step = static_cast<int64_t>(a);
    save_rig(all[a], folder.path(), step, a);
    const std::string path = checkpoint_path(folder.path(), step);
    CheckpointReader(path).verify();
    for (size_t b = 0; b < all.size(); ++b) {
      // All pairs with one rank or the largest layout, and each layout with itself and its
      // neighbour.
      if (a * b == 0 || a + 1 == all.size() || b + 1 == all.size() || b - a <= 1) {
        EXPECT_EQ(count_wrong_after_load(all[b], path, a), 0)
            << all[a].layout << " to " << all[b].layout;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Embeddings, AnyLayout, testing::Bool(),
                         [](const auto& test) { return test.param ? "Tied" : "Untied"; });

TEST(ShardedCheckpoint, ReturnsTheMetaOnEveryRank) {
  const TestFolder folder;
  const CheckpointMeta meta{.step = 7, .tokens_seen = 700, .seed = 3, .extra = R"({"position":5})"};
  run_rig({.layout = "dp2"}, [&](Rig& rig) {
    rig.fill(1);
    save_checkpoint(rig.state(), {.directory = folder.file("run/a")}, meta);
    const std::optional<LoadedCheckpoint> loaded = load_latest(rig.state(), folder.file("run/a"));
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->path, folder.file("run/a/step-00000007"));
    EXPECT_EQ(loaded->meta.step, 7);
    EXPECT_EQ(loaded->meta.tokens_seen, 700);
    EXPECT_EQ(loaded->meta.seed, 3U);
    EXPECT_EQ(loaded->meta.extra, meta.extra);
    EXPECT_FALSE(load_latest(rig.state(), folder.file("run/b")));
  });
}

TEST(ShardedCheckpoint, EachElementIsWrittenOnce) {
  const TestFolder folder;
  const RigOptions options{.layout = "dp2.tp2.pp2.sp.zero1", .bucket_count = 300};
  save_rig(options, folder.path(), 1, 1);
  const Manifest manifest = read_manifest(checkpoint_path(folder.path(), 1));
  EXPECT_EQ(manifest.files.size(), 8U);
  EXPECT_EQ(manifest.layout, "dp2.tp2.pp2.sp.zero1");
  int64_t count = 0;
  for (const PieceRecord& piece : manifest.pieces) {
    count += piece.part.count();
  }
  int64_t expected = 37 % 2 * 16;  // the padding row of the vocabulary
  for (const ParamSpec& spec : make_parameter_table(manifest.model, {})) {
    expected += spec.count();
  }
  EXPECT_EQ(count, expected);
}

TEST(ShardedCheckpoint, LoadsWeightsAlone) {
  const TestFolder folder;
  save_rig({.layout = "tp2"}, folder.path(), 1, 1);
  run_rig({.layout = "dp2.zero1"}, [&](Rig& rig) {
    rig.fill(2);
    load_checkpoint(rig.state(), checkpoint_path(folder.path(), 1), {.optimizer = false});
    EXPECT_EQ(rig.count_wrong_weights(1), 0);
    EXPECT_GT(rig.count_wrong(1), 0);
  });
}

TEST(ShardedCheckpoint, RefusesAnotherModel) {
  const TestFolder folder;
  save_rig({.layout = "dp1", .tied = true}, folder.path(), 1, 1);
  run_rig({.layout = "tp2", .tied = false}, [&](Rig& rig) {
    try {
      load_latest(rig.state(), folder.path());
      ADD_FAILURE() << "loaded";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(error.message().find("tie_word_embeddings is true in the checkpoint"),
                std::string::npos)
          << error.message();
    }
  });
}

TEST(ShardedCheckpoint, ReplacesTheSameStep) {
  const TestFolder folder;
  save_rig({.layout = "dp2.zero1"}, folder.path(), 1, 1);
  save_rig({.layout = "tp2"}, folder.path(), 1, 2);
  EXPECT_EQ(count_wrong_after_load({.layout = "dp1"}, checkpoint_path(folder.path(), 1), 2), 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(ShardedCheckpoint, KeepsTheLastN) {
  const TestFolder folder;
  run_rig({.layout = "dp2"}, [&](Rig& rig) {
    rig.fill(1);
    CheckpointSaver saver(rig.state(), {.directory = folder.path(), .keep_last = 2});
    for (const int64_t step : {10, 20, 30, 40}) {
      saver.save({.step = step});
    }
    EXPECT_EQ(saver.last_path(), checkpoint_path(folder.path(), 40));
    // A newer one of another run of the same folder stays.
    saver.save({.step = 35});
  });
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : list_checkpoints(folder.path())) {
    EXPECT_EQ(entry.problem, "");
    steps.push_back(entry.step);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{40, 35, 30}));
}

class Async : public testing::TestWithParam<std::string> {};

TEST_P(Async, SavesTheStateOfTheCall) {
  const TestFolder folder;
  const RigOptions options{.layout = "dp2.tp2.zero1", .device = GetParam()};
  run_rig(options, [&](Rig& rig) {
    rig.fill(1);
    CheckpointSaver saver(rig.state(), {.directory = folder.path(), .async = true});
    EXPECT_TRUE(saver.poll());
    saver.save({.step = 1});
    rig.fill(2);  // training goes on
    while (!saver.poll()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_FALSE(saver.busy());
    EXPECT_EQ(saver.last_path(), checkpoint_path(folder.path(), 1));
    saver.save({.step = 2});
    rig.fill(3);
    saver.save({.step = 3});  // finishes the one before
    EXPECT_EQ(saver.last_path(), checkpoint_path(folder.path(), 2));
    saver.finish();
    for (const int64_t step : {1, 2, 3}) {
      load_checkpoint(rig.state(), checkpoint_path(folder.path(), step));
      EXPECT_EQ(rig.count_wrong(static_cast<uint64_t>(step)), 0);
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Devices, Async, testing::Values("cpu", "guard"),
                         [](const auto& test) { return test.param; });

TEST(ShardedCheckpoint, ADroppedAsyncSaveLeavesNoCheckpoint) {
  const TestFolder folder;
  run_rig({.layout = "dp2"}, [&](Rig& rig) {
    rig.fill(1);
    CheckpointSaver(rig.state(), {.directory = folder.path(), .async = true}).save({.step = 1});
  });
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
  save_rig({.layout = "dp1"}, folder.path(), 2, 1);
  // What the dropped one left is gone.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace plait
