#include "plan/search.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/comm_model.h"
#include "plan/limits.h"
#include "plan/plan_jobs.h"

namespace plait {
namespace {

SearchRequest small_request(int devices) {
  SearchRequest request;
  request.job = small_job();
  request.cluster = load_cluster("910b");
  // So little memory that some layouts do not fit.
  request.cluster.chip.memory_bytes.value = 7e9;
  request.cluster.chip.reserve_bytes.value = 1e9;
  request.devices = devices;
  request.threads = 2;
  return request;
}

std::vector<std::string> described(const SearchResult& result) {
  std::vector<std::string> text;
  for (const Candidate& candidate : result.best) {
    text.push_back(describe_layout(candidate.job));
  }
  return text;
}

TEST(Search, StageLayersTextJoinsEqualNeighbours) {
  EXPECT_EQ(stage_layers_text({11, 12, 12, 12, 9}), "11,12x3,9");
  EXPECT_EQ(stage_layers_text({7, 7}), "7x2");
  EXPECT_EQ(stage_layers_text({7, 5}), "7,5");
}

TEST(Search, PruningChangesNothing) {
  for (const int devices : {1, 8, 16, 24}) {
    SearchRequest request = small_request(devices);
    const SearchResult pruned = search_layouts(request);
    request.prune = false;
    const SearchResult whole = search_layouts(request);
    EXPECT_EQ(described(pruned), described(whole)) << devices;
    EXPECT_EQ(pruned.counts.enumerated, whole.counts.enumerated);
    EXPECT_EQ(pruned.counts.simulated + pruned.counts.pruned_bound, whole.counts.simulated);
    ASSERT_FALSE(whole.best.empty());
  }
  EXPECT_GT(search_layouts(small_request(16)).counts.pruned_bound, 0);
}

// Another order of ranks is another place of the groups, or it is not offered.
TEST(Search, OrdersOfRanksDiffer) {
  TrainJob job = small_job();
  job.layout.dp = 4;
  job.layout.cp = 2;
  job.layout.pp = 4;
  job.pp_before_dp = true;
  EXPECT_EQ(group_place(job, CommAxis::kDp).inside(8), 2);  // the two cp ranks
  EXPECT_EQ(group_place(job, CommAxis::kPp).inside(8), 4);
  job.pp_before_dp = false;
  EXPECT_EQ(group_place(job, CommAxis::kDp).inside(8), 8);
  EXPECT_EQ(group_place(job, CommAxis::kPp).inside(8), 1);
  job.pp_before_dp = true;
  job.layout.pp = 2;
  EXPECT_EQ(group_place(job, CommAxis::kDp).inside(8), 4);
  SearchRequest request = small_request(16);
  request.fixed.tp = 8;
  request.fixed.pp = 2;
  for (const Candidate& candidate : search_layouts(request).best) {
    EXPECT_FALSE(candidate.job.pp_before_dp) << describe_layout(candidate.job);
  }
}

TEST(Search, ThreadsChangeNothing) {
  SearchRequest request = small_request(16);
  const SearchResult two = search_layouts(request);
  request.threads = 1;
  const SearchResult one = search_layouts(request);
  EXPECT_EQ(described(one), described(two));
  EXPECT_EQ(one.counts.pruned_memory, two.counts.pruned_memory);
  EXPECT_EQ(one.counts.simulated, two.counts.simulated);
}

TEST(Search, EveryLayoutIsValidAndFits) {
  const SearchRequest request = small_request(16);
  for (const Candidate& candidate : search_layouts(request).best) {
    EXPECT_EQ(candidate.job.layout.world_size(), 16);
    EXPECT_TRUE(find_job_problems(candidate.job, 16).empty()) << describe_layout(candidate.job);
    EXPECT_NE(candidate.estimate.fit, Fit::kDoesNotFit) << describe_layout(candidate.job);
  }
}

TEST(Search, FixedDegreesHold) {
  SearchRequest request = small_request(16);
  request.fixed.tp = 4;
  request.fixed.micro_batch = 2;
  request.fixed.sp = true;
  const SearchResult result = search_layouts(request);
  ASSERT_FALSE(result.best.empty());
  for (const Candidate& candidate : result.best) {
    EXPECT_EQ(candidate.job.layout.tp, 4);
    EXPECT_EQ(candidate.job.batch.micro_batch_size, 2);
    EXPECT_TRUE(candidate.job.layout.sp);
  }
  request.fixed.tp = 3;
  EXPECT_THROW(search_layouts(request), Error);
}

TEST(Search, NothingFits) {
  SearchRequest request = small_request(8);
  request.cluster.chip.memory_bytes.value = 1.1e9;
  const SearchResult result = search_layouts(request);
  EXPECT_TRUE(result.best.empty());
  ASSERT_TRUE(result.nearest.has_value());
  EXPECT_GT(result.nearest->estimate.worst_stage().peak.best, 1e8);
}

TEST(Search, MemoryGoalFindsTheSmallestPeak) {
  SearchRequest request = small_request(8);
  const SearchResult fast = search_layouts(request);
  request.goal = Goal::kMemory;
  const SearchResult small = search_layouts(request);
  EXPECT_LE(small.best.front().estimate.worst_stage().peak.best,
            fast.best.front().estimate.worst_stage().peak.best);
}

TEST(Search, LimitsAreTheEdge) {
  const SearchRequest request = small_request(8);
  const TrainJob job = search_layouts(request).best.front().job;
  const Limits limits = memory_limits(job, request.cluster.chip);
  const double capacity =
      request.cluster.chip.memory_bytes.value - request.cluster.chip.reserve_bytes.value;
  auto peak = [&](int64_t seq) {
    TrainJob longer = job;
    longer.batch.seq_len = seq;
    double most = 0;
    for (const StageMemoryPlan& stage : estimate_job_memory(longer, request.cluster.chip)) {
      most = std::max(most, stage.peak.best);
    }
    return most;
  };
  EXPECT_LE(peak(limits.longest_seq), capacity);
  EXPECT_GT(peak(limits.longest_seq + 2 * job.layout.tp * job.layout.cp), capacity);
  EXPECT_GE(limits.largest_micro_batch, job.batch.micro_batch_size);
}

}  // namespace
}  // namespace plait
