#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "comm_test/report.h"
#include "support/test_files.h"

namespace plait {
namespace {

// 4 hosts x 2 ranks, every link 12 MB/s with a scatter of 10 %.
LinkResult healthy() {
  LinkResult r;
  for (int rank = 0; rank < 8; ++rank) {
    r.hosts.push_back("h" + std::to_string(rank / 2));
    r.stalled_share.push_back(0.02);
  }
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      if (a != b) {
        LinkSample s;
        s.source = a;
        s.destination = b;
        s.bandwidth = 12e6 * (1 - 0.1 * ((a * 5 + b * 3) % 10) / 10.0);
        s.latency_s = 500e-6;
        s.pings = 40;
        r.samples.push_back(s);
      }
    }
  }
  return r;
}

template <typename F>
LinkResult spoiled(F spoil) {
  LinkResult r = healthy();
  for (LinkSample& s : r.samples) {
    spoil(s, s.source / 2, s.destination / 2);
  }
  return r;
}

std::string summary(const std::vector<CommFinding>& findings) {
  std::string text;
  for (const CommFinding& f : findings) {
    text += std::string(finding_name(f.kind)) + " " + f.guilty + ";";
  }
  return text;
}

TEST(JudgeLinks, NothingOnAHealthyNetwork) {
  EXPECT_EQ(summary(judge_links(healthy())), "");
  // One late packet is no loss.
  LinkResult r = healthy();
  r.samples[20].lost = 1;
  EXPECT_EQ(summary(judge_links(r)), "");
}

TEST(JudgeLinks, OneSlowLink) {
  EXPECT_EQ(summary(judge_links(spoiled([](LinkSample& s, int a, int b) {
              s.bandwidth *= (a == 1 && b == 2) || (a == 2 && b == 1) ? 0.25 : 1;
            }))),
            "slow_link h1-h2;");
}

TEST(JudgeLinks, OneSlowDirection) {
  EXPECT_EQ(summary(judge_links(spoiled(
                [](LinkSample& s, int a, int b) { s.bandwidth *= a == 3 && b == 0 ? 0.3 : 1; }))),
            "asymmetric_link h3->h0;");
}

TEST(JudgeLinks, AHostWithLoss) {
  EXPECT_EQ(summary(judge_links(spoiled([](LinkSample& s, int a, int b) {
              s.lost = a != b && (a == 3 || b == 3) ? 1 : 0;
            }))),
            "bad_host h3;");
}

TEST(JudgeLinks, AHostWhoseCardIsSlow) {
  EXPECT_EQ(summary(judge_links(spoiled([](LinkSample& s, int a, int b) {
              s.bandwidth *= a != b && (a == 0 || b == 0) ? 0.4 : 1;
            }))),
            "bad_host h0;");
}

TEST(JudgeLinks, TwoSlowLinksWithoutACommonHost) {
  EXPECT_EQ(summary(judge_links(spoiled([](LinkSample& s, int a, int b) {
              const bool one = a + b == 1, other = a + b == 5;
              s.bandwidth *= a != b && (one || other) ? 0.3 : 1;
            }))),
            "slow_link h0-h1;slow_link h2-h3;");
}

// Its links look lossy because nobody answers.
TEST(JudgeLinks, AHostWhoseRanksAreStopped) {
  LinkResult r = spoiled([](LinkSample& s, int a, int b) {
    s.lost = a != b && (a == 2 || b == 2) ? 9 : 0;
    s.bandwidth *= a != b && (a == 2 || b == 2) ? 0.5 : 1;
  });
  r.stalled_share[4] = 0.49;
  r.stalled_share[5] = 0.52;
  EXPECT_EQ(summary(judge_links(r)), "stalled_host h2;");
  // On a machine that is busy everywhere nobody is the odd one.
  for (double& share : r.stalled_share) {
    share = 0.5;
  }
  EXPECT_EQ(summary(judge_links(r)), "bad_host h2;");
}

SweepResult sweep_of(double busbw) {
  SweepResult r;
  r.ranks = 4;
  r.hosts = {"a", "a", "b", "b"};
  r.stalled_share = {0, 0, 0, 0};
  SweepRow row;
  row.op = TestOp::kAllReduce;
  row.bytes = 1 << 20;
  row.iterations = 50;
  row.busbw = busbw;
  row.algbw = busbw / 1.5;
  r.rows.push_back(row);
  return r;
}

TEST(JudgeSweep, AgainstABaseline) {
  const TestFolder folder;
  const std::string path = folder.file("baseline.json");
  write_file_atomic(path, dump_json(sweep_json(sweep_of(10e9), {})));
  const std::vector<Expectation> expected = read_baseline(path);
  EXPECT_EQ(summary(judge_sweep(sweep_of(9e9), expected, "baseline", 0.8)), "");
  const auto slow = judge_sweep(sweep_of(4.6e9), expected, "baseline", 0.8);
  EXPECT_EQ(summary(slow), "below_expectation all_reduce;");
  EXPECT_NE(slow.front().evidence.find("46 % of 10.00 GB/s"), std::string::npos)
      << slow.front().evidence;
  write_file_atomic(path, "{\"rows\": 3}");
  EXPECT_THROW(read_baseline(path), Error);
}

TEST(JudgeSweep, ARankThatIsAlwaysLast) {
  SweepResult r = sweep_of(1e9);
  r.rows[0].late_calls = 48;
  r.rows[0].last_rank = 3;
  r.rows[0].last_share = 0.98;
  r.rows[0].last_wait_s = 2e-3;
  const auto findings = judge_sweep(r, {}, "", 0.8);
  EXPECT_EQ(summary(findings), "late_rank rank 3;");
  EXPECT_NE(findings.front().evidence.find("98 %"), std::string::npos);
  r.rows[0].last_share = 0.3;
  EXPECT_EQ(summary(judge_sweep(r, {}, "", 0.8)), "");
}

TEST(JudgeSweep, WrongDataComesFirst) {
  SweepResult r = sweep_of(1e9);
  r.rows[0].wrong = 7;
  r.rows[0].wrong_rank = 2;
  r.rows[0].first_wrong = 11;
  EXPECT_EQ(summary(judge_sweep(r, {}, "", 0.8)), "wrong_data rank 2;");
}

TEST(JudgeSweep, ClosedFormOfTheCluster) {
  const Cluster cluster = with_devices(load_cluster("910b3"), 8);
  SweepResult r = sweep_of(1e9);
  r.ranks = 8;
  r.rows[0].bytes = int64_t{1} << 30;
  const auto expected = expect_sweep(r, cluster);
  ASSERT_EQ(expected.size(), 1u);
  // Large messages: near the mesh's bandwidth times its efficiency.
  const double link = cluster.intra.bandwidth.value * cluster.intra.efficiency.value;
  EXPECT_NEAR(expected[0].busbw / link, 1, 0.05);
}

TEST(HcclAdvice, OnlyWhatHcclAccepts) {
  SweepResult r = sweep_of(1e9);
  r.ranks = 64;
  r.rows[0].bytes = 1 << 20;
  const auto advice = hccl_advice(r, load_cluster("910b3x8"));
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_NE(advice[0].find("level0:NA;level1:NHR"), std::string::npos);
  EXPECT_EQ(advice[0].find("Tree"), std::string::npos);
  EXPECT_TRUE(hccl_advice(r, load_cluster("a100x8")).empty());
  r.ranks = 8;
  EXPECT_TRUE(hccl_advice(r, load_cluster("910b3")).empty());
}

TEST(Html, NamesAreEscaped) {
  LinkResult r = healthy();
  for (std::string& host : r.hosts) {
    host.insert(0, "<b>");
  }
  const std::string page = links_html(r, judge_links(r));
  EXPECT_EQ(page.find("<b>h"), std::string::npos);
  EXPECT_NE(page.find("&lt;b&gt;h3"), std::string::npos);
  const std::string curves = sweep_html(sweep_of(1e9), {});
  EXPECT_NE(curves.find("<polyline points="), std::string::npos);
  EXPECT_EQ(curves.find("nan"), std::string::npos);
}

TEST(Drift, LinksThatGotSlower) {
  const Json baseline = links_json(healthy(), {});
  EXPECT_TRUE(judge_drift(healthy(), baseline, "b").empty());
  const LinkResult slow = spoiled([](LinkSample& s, int a, int b) {
    s.bandwidth *= a == 0 && b == 3 ? 0.5 : 1;
    s.latency_s *= a == 1 && b == 2 ? 3 : 1;
  });
  EXPECT_EQ(summary(judge_drift(slow, baseline, "b")),
            "below_expectation h0->h3;below_expectation h1->h2;");
  EXPECT_THROW(judge_drift(slow, Json::parse("{}"), "b"), Error);
}

}  // namespace
}  // namespace plait
