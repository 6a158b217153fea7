// MindFormers run files: where the model stands, files on top of files, lists by stage, the pool.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/units.h"
#include "plan/check.h"
#include "plan/check_report.h"
#include "plan/plan_texts.h"

namespace plait {
namespace {

CheckReport check_run(const std::string& text, int devices = 0, const char* cluster = nullptr) {
  CheckOptions options;
  options.read.devices = devices;
  if (cluster != nullptr) {
    options.cluster = load_cluster(cluster);
  }
  return check_text(text, "run.yaml", options);
}

const CheckProblem* problem_of(const CheckReport& report, const std::string& key) {
  const auto found = std::find_if(report.problems.begin(), report.problems.end(),
                                  [&](const CheckProblem& one) { return one.key == key; });
  return found == report.problems.end() ? nullptr : &*found;
}

const ProposedChange* change_of(const CheckReport& report, const std::string& key) {
  if (!report.proposal) {
    return nullptr;
  }
  const auto& changes = report.proposal->changes;
  const auto found = std::find_if(changes.begin(), changes.end(),
                                  [&](const ProposedChange& one) { return one.key == key; });
  return found == changes.end() ? nullptr : &*found;
}

const char* const kLlama13b =
    "    num_layers: 40\n"
    "    hidden_size: 5120\n"
    "    num_heads: 40\n"
    "    vocab_size: 32000\n"
    "    seq_length: 4096\n"
    "    use_flash_attention: True\n";

std::string parallel_sections(int dp, int tp, int pp, int micro_batches) {
  return "parallel: {parallel_mode: 1, enable_parallel_optimizer: True}\n"
         "parallel_config: {data_parallel: " +
         std::to_string(dp) + ", model_parallel: " + std::to_string(tp) +
         ", pipeline_stage: " + std::to_string(pp) +
         ", micro_batch_num: " + std::to_string(micro_batches) +
         ", vocab_emb_dp: True}\n"
         "runner_config: {batch_size: 1}\n";
}

// parallel_sections() takes three lines.
std::string mindformers_file(const std::string& recompute = "True",
                             const std::string& context = "") {
  return parallel_sections(8, 4, 4, 16) + "recompute_config: {recompute: " + recompute + "}\n" +
         context + "model:\n  model_config:\n" + kLlama13b;
}

TEST(MindFormers, AModelConfigAtTheTop) {
  const std::string text = parallel_sections(8, 4, 4, 16) + "model_config:\n" + kLlama13b +
                           "    n_routed_experts: 8\n"
                           "    num_experts_per_tok: 2\n"
                           "    hiden_size: 1\n";
  const CheckReport report = check_run(text, 128);
  EXPECT_EQ(report.job.model.num_layers, 40);
  EXPECT_EQ(report.job.model.moe.num_experts, 8);
  EXPECT_EQ(report.job.model.moe.experts_per_token, 2);
  ASSERT_EQ(report.unknown_flags.size(), 1U) << problems_of(report);
  EXPECT_EQ(report.unknown_flags[0].text, "model_config.hiden_size");
}

TEST(MindFormers, RecomputeListsFollowTheStages) {
  // Two micro-batches of one replica allow two stages: the same 15 layers recompute.
  const CheckReport fewer =
      check_run(parallel_sections(1, 4, 4, 2) + "recompute_config: {recompute: [10, 5, 0, 0]}\n" +
                    "model:\n  model_config:\n" + kLlama13b,
                16);
  ASSERT_TRUE(fewer.proposal) << check_report_text(fewer);
  ASSERT_EQ(fewer.proposal->job.layout.pp, 2) << check_report_text(fewer);
  EXPECT_EQ(fewer.proposal->job.recompute_layers_of, (std::vector<int64_t>{15, 0}));
  const ProposedChange* change = change_of(fewer, "recompute");
  ASSERT_NE(change, nullptr) << check_report_text(fewer);
  EXPECT_EQ(change->before, "[10, 5, 0, 0]");
  EXPECT_EQ(change->after, "[15, 0]");
}

// Where 42 layers do not split over 4 stages, the list says nothing about 2 of them.
TEST(MindFormers, RecomputeListsOfNoSplitAreDropped) {
  std::string text = mindformers_file("[10, 5, 0, 0]", "context: {max_device_memory: 10GB}\n");
  text.replace(text.find("num_layers: 40"), 14, "num_layers: 42");
  const CheckReport report = check_run(text, 128);
  ASSERT_TRUE(report.proposal) << check_report_text(report);
  const TrainJob& job = report.proposal->job;
  ASSERT_NE(job.layout.pp, 4);
  EXPECT_TRUE(job.recompute_layers_of.empty());
  ASSERT_NE(change_of(report, "recompute"), nullptr) << check_report_text(report);
  EXPECT_EQ(change_of(report, "recompute")->after, "full");
}

// The global batch stays: micro_batch_num follows data_parallel.
TEST(MindFormers, MicroBatchesFollowTheReplicas) {
  std::string text = mindformers_file();
  text.replace(text.find("micro_batch_num: 16"), 19, "micro_batch_num: 2");
  const CheckReport staged = check_run(text, 128);
  const ProposedChange* change = change_of(staged, "global_batch_size");
  ASSERT_NE(change, nullptr) << check_report_text(staged);
  EXPECT_EQ(change->name, "parallel_config.micro_batch_num");
  EXPECT_EQ(change->before, "2");
  EXPECT_EQ(change->after, std::to_string(16 / staged.proposal->job.layout.dp));
}

TEST(MindFormers, LayersAreBounded) {
  std::string text = mindformers_file();
  text.replace(text.find("num_layers: 40"), 14, "num_layers: 2147483640");
  EXPECT_NE(refusal_of([&] { check_run(text, 128); }).find("run.yaml:7: model_config has"),
            std::string::npos);
}

TEST(MindFormers, OneDocumentThatEnds) {
  // yaml-cpp makes endless empty documents of a stray comma.
  EXPECT_NE(refusal_of([] { check_run("model: {}\n,\n"); }).find("run.yaml:"), std::string::npos);
  EXPECT_NE(refusal_of([] {
              check_run(mindformers_file() + "---\n" + mindformers_file());
            }).find("2 YAML documents"),
            std::string::npos);
}

TEST(MindFormers, ThePoolIsTheLimit) {
  const CheckReport wide =
      check_run(mindformers_file("False", "context: {max_device_memory: 58GB}\n"), 128);
  ASSERT_TRUE(wide.memory);
  EXPECT_EQ(wide.memory->pool, 58 * kGiB);
  EXPECT_EQ(problem_of(wide, "context.max_device_memory"), nullptr) << problems_of(wide);
  EXPECT_NE(check_report_text(wide).find("GiB usable, a pool of 58.0 by run.yaml:5)"),
            std::string::npos)
      << check_report_text(wide);
  EXPECT_NE(check_report_json(wide).find("\"pool\""), std::string::npos);
  const double needed = wide.memory->stages[0].bytes.framework() / kGiB;
  ASSERT_GT(needed, 8);

  const CheckReport narrow =
      check_run(mindformers_file("False", "context: {max_device_memory: 8GB}\n"), 128);
  EXPECT_EQ(narrow.memory->fit, Fit::kDoesNotFit);
  EXPECT_FALSE(narrow.ok());
  const CheckProblem* problem = problem_of(narrow, "context.max_device_memory");
  ASSERT_NE(problem, nullptr) << check_report_text(narrow);
  EXPECT_EQ(problem->severity, Severity::kError);
  EXPECT_EQ(problem->where.text(), "run.yaml:5");
  EXPECT_NE(problem->rule.find("of the pool, which ends at 8.00"), std::string::npos);
  EXPECT_EQ(problem->suggestion, "max_device_memory: \"58GB\"");
  // The limit itself is the one setting to change.
  ASSERT_TRUE(narrow.proposal) << check_report_text(narrow);
  EXPECT_EQ(narrow.proposal->changes.size(), 1U);
}

TEST(MindFormers, APoolOfNoSize) {
  for (const char* wrong : {"58", "GB", "-1GB", "58gb", ".5GB", "0GB", "1.2.3GB", "[1, 2]"}) {
    const CheckReport report = check_run(
        mindformers_file("True", std::string("context: {max_device_memory: ") + wrong + "}\n"),
        128);
    const CheckProblem* problem = problem_of(report, "context.max_device_memory");
    ASSERT_NE(problem, nullptr) << wrong;
    EXPECT_EQ(problem->severity, Severity::kError) << wrong;
  }
  const CheckReport half =
      check_run(mindformers_file("True", "context: {max_device_memory: 30.5GB}\n"), 128);
  EXPECT_EQ(half.job.pool_bytes, 30.5 * kGiB);
}

class MindFormersBase : public testing::Test {
 protected:
  MindFormersBase()
      : folder_(std::filesystem::temp_directory_path() /
                ("plait_base_config_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_ / "task");
  }
  ~MindFormersBase() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    write_file_atomic(folder_ / name, text);
    return folder_ / name;
  }
  static CheckReport check_path(const std::string& path) {
    CheckOptions options;
    options.read.devices = 128;
    return check_file(path, options);
  }

  std::filesystem::path folder_;
};

TEST_F(MindFormersBase, LiesUnderTheFile) {
  const std::string shared =
      write("task/shape.yaml", std::string("model:\n  model_config:\n") + kLlama13b);
  write("task/context.yaml", "context: {max_device_memory: 54GB}\n");
  write("task/runner.yaml", "base_config: context.yaml\n" + parallel_sections(8, 4, 4, 16));
  const std::string path = write("run.yaml",
                                 "base_config: [task/shape.yaml, ./task/runner.yaml]\n"
                                 "runner_config: {batch_size: 2}\n"
                                 "model: {model_config: {vocab_size: 64000, hiden_size: 1}}\n"
                                 "recompute_config: {recompute: True}\n");
  const CheckReport report = check_path(path);
  EXPECT_EQ(report.num_errors(), 0) << check_report_text(report);
  EXPECT_EQ(to_string(report.job.layout), "dp8.tp4.pp4.zero1");
  EXPECT_EQ(report.job.batch.micro_batch_size, 2);
  EXPECT_EQ(report.job.model.num_layers, 40);
  EXPECT_EQ(report.job.model.vocab_size, 64000);
  EXPECT_EQ(report.job.pool_bytes, 54 * kGiB);
  EXPECT_EQ(report.memory->pool_where.text(), (folder_ / "task/context.yaml").string() + ":1");
  ASSERT_EQ(report.unknown_flags.size(), 1U);
  EXPECT_EQ(report.unknown_flags[0].where.text(), path + ":3");

  // What is wrong in a base is told with its own line.
  write("task/shape.yaml", "\n\nmodel: {model_config: {num_layers: many}}\n");
  EXPECT_NE(refusal_of([&] { check_path(path); }).find(shared + ":3: model_config.num_layers"),
            std::string::npos);
}

// Of two bases the later one replaces whole sections of the earlier.
TEST_F(MindFormersBase, SeveralReplaceEachOthersSections) {
  write("task/a.yaml", parallel_sections(8, 4, 4, 16));
  write("task/b.yaml", "parallel_config: {data_parallel: 128}\n");
  const std::string path = write("run.yaml",
                                 "base_config: [task/a.yaml, task/b.yaml]\n"
                                 "recompute_config: {recompute: True}\n");
  EXPECT_EQ(to_string(check_path(path).job.layout), "dp128.zero1");
}

TEST_F(MindFormersBase, OneThatIsNotThereOrHasNoEnd) {
  const auto refusal = [&](const std::string& text) {
    const std::string path = write("run.yaml", text);
    return refusal_of([&] { check_path(path); });
  };
  const std::string missing = refusal("seed: 1\nbase_config: ../none/context.yaml\n");
  EXPECT_NE(missing.find("run.yaml:2: base_config names ../none/context.yaml"), std::string::npos)
      << missing;
  EXPECT_NE(missing.find((folder_.parent_path() / "none/context.yaml").string()), std::string::npos)
      << missing;
  EXPECT_NE(refusal("base_config: run.yaml\n").find("name each other"), std::string::npos);
  EXPECT_NE(refusal("base_config: {a: b}\n").find("a path or a list of paths"), std::string::npos);
  write("task/list.yaml", "[1, 2]\n");
  EXPECT_NE(refusal("base_config: task/list.yaml\n").find("holds no mapping"), std::string::npos);
  write("task/comma.yaml", "a: 1\n,\n");
  EXPECT_NE(refusal("base_config: task/comma.yaml\n").find("comma.yaml:2"), std::string::npos);
  // Mappings that hold themselves on both sides.
  const std::string bomb = "a: &a {b: *a, c: *a}\n";
  write("task/bomb.yaml", bomb);
  EXPECT_NE(refusal("base_config: task/bomb.yaml\n" + bomb).find("keys to merge"),
            std::string::npos);
}

}  // namespace
}  // namespace plait
