#include "serve/scheduler.h"

#include <map>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace plait {
namespace {

// Runs a scheduler with a "model" whose next token is a function of the tokens before, so that any
// wrong order, gap or lost token shows.
class Runner {
 public:
  explicit Runner(const SchedulerOptions& options) : options_(options), scheduler_(options) {}

  struct Job {
    int64_t prompt = 0;
    int64_t output = 0;
    int priority = 0;
    int32_t first = 0;
  };
  uint64_t add(const Job& job) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = ++last_id_;
    sequence->request.priority = job.priority;
    for (int64_t i = 0; i < job.prompt; ++i) {
      sequence->tokens.push_back(job.first + static_cast<int32_t>(i % 3));
    }
    sequence->prompt_count = job.prompt;
    sequence->last_count = job.prompt + job.output;
    scheduler_.add(std::move(sequence));
    return last_id_;
  }

  // One step; returns its rows by sequence.
  std::map<uint64_t, int64_t> step(const Scheduler::Limits& limits = {
                                       .max_running = 1000, .prefill_beside_decode = 1000}) {
    std::map<uint64_t, int64_t> rows;
    int64_t total = 0;
    const std::vector<ScheduledTokens> items = scheduler_.schedule(limits);
    for (const ScheduledTokens& item : items) {
      const Sequence& sequence = *item.sequence;
      EXPECT_EQ(item.begin, sequence.computed);
      EXPECT_GE(std::ssize(sequence.blocks) * options_.blocks.block_tokens,
                item.begin + item.count);
      EXPECT_GE(sequence.slot, 0);
      EXPECT_TRUE(rows.emplace(sequence.id, item.count).second);
      total += item.count;
    }
    EXPECT_LE(total, options_.max_num_batched_tokens);
    scheduler_.advance();
    for (const ScheduledTokens& item : items) {
      if (item.sample) {
        Sequence& sequence = *item.sequence;
        most_preemptions_ = std::max(most_preemptions_, sequence.preemptions);
        uint64_t sum = 0;
        for (const int32_t token : sequence.tokens) {
          sum = random_bits(sum, 1, static_cast<uint64_t>(token));
        }
        sequence.tokens.push_back(static_cast<int32_t>(sum % 1000));
        if (std::ssize(sequence.tokens) == sequence.last_count) {
          done_.emplace(sequence.id, scheduler_.remove(sequence.id)->tokens);
        }
      }
    }
    return rows;
  }

  Scheduler& scheduler() { return scheduler_; }
  const std::map<uint64_t, std::vector<int32_t>>& done() const { return done_; }
  int most_preemptions() const { return most_preemptions_; }

 private:
  SchedulerOptions options_;
  Scheduler scheduler_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, std::vector<int32_t>> done_;
  int most_preemptions_ = 0;
};

SchedulerOptions make_options(int64_t blocks) {
  return {.blocks = {.num_blocks = blocks, .block_tokens = 4},
          .max_num_seqs = 4,
          .max_num_batched_tokens = 8};
}

TEST(Scheduler, LongPromptComesInChunksBesideRunningSequences) {
  Runner runner(make_options(100));
  const uint64_t a = runner.add({.prompt = 3, .output = 20, .first = 10});
  runner.step();
  const uint64_t b = runner.add({.prompt = 20, .output = 2, .first = 20});
  using Rows = std::map<uint64_t, int64_t>;
  const Scheduler::Limits limits{.max_running = 4, .prefill_beside_decode = 6};
  EXPECT_EQ(runner.step(limits), (Rows{{a, 1}, {b, 6}}));
  EXPECT_EQ(runner.step(), (Rows{{a, 1}, {b, 7}}));
  EXPECT_EQ(runner.step(), (Rows{{a, 1}, {b, 7}}));
  EXPECT_EQ(runner.step(), (Rows{{a, 1}, {b, 1}}));
  EXPECT_TRUE(runner.done().contains(b));
}

TEST(Scheduler, UrgentRequestsGoFirstAndTakePlaces) {
  Runner runner(make_options(100));
  for (int i = 0; i < 4; ++i) {
    runner.add({.prompt = 2, .output = 50, .priority = 5, .first = 10 * i});
  }
  runner.step();
  const uint64_t same = runner.add({.prompt = 2, .output = 2, .priority = 5, .first = 90});
  EXPECT_FALSE(runner.step().contains(same));
  const uint64_t urgent = runner.add({.prompt = 2, .output = 2, .priority = 0, .first = 95});
  const auto rows = runner.step();
  EXPECT_TRUE(rows.contains(urgent));
  EXPECT_FALSE(rows.contains(4));
  EXPECT_EQ(runner.scheduler().counters().preemptions, 1);
}

TEST(Scheduler, AdmissionLimitHolds) {
  Runner runner(make_options(100));
  for (int i = 0; i < 4; ++i) {
    runner.add({.prompt = 1, .output = 10, .first = 10 * i});
  }
  runner.step({.max_running = 2, .prefill_beside_decode = 8});
  EXPECT_EQ(runner.scheduler().num_running(), 2);
  EXPECT_EQ(runner.scheduler().num_waiting(), 2);
}

// Room for two of twenty requests: all finish, nobody is preempted for ever, tokens as without.
TEST(Scheduler, ScarceBlocksEndInTheSameTokens) {
  Runner plenty(make_options(1000));
  Runner scarce(make_options(20));
  for (Runner* runner : {&plenty, &scarce}) {
    for (int i = 0; i < 20; ++i) {
      runner->add({.prompt = 2 + i % 7, .output = 30 + i % 5, .first = i * 10});
    }
    for (int step = 0; step < 3000 && !runner->scheduler().idle(); ++step) {
      ASSERT_FALSE(runner->step().empty());
    }
    ASSERT_TRUE(runner->scheduler().idle());
    EXPECT_EQ(runner->scheduler().blocks().num_free(), runner->scheduler().blocks().num_blocks());
  }
  EXPECT_EQ(plenty.done(), scarce.done());
  EXPECT_GT(scarce.scheduler().counters().preemptions, 0);
  EXPECT_LE(scarce.most_preemptions(), Scheduler::kMostPreemptions);
}

TEST(Scheduler, RandomCancelsAndPrioritiesLeaveNothingBehind) {
  Runner runner(make_options(24));
  for (uint64_t i = 0; i < 4000; ++i) {
    const auto pick = [i](uint64_t stream, uint64_t most) {
      return static_cast<int64_t>(random_bits(3, stream, i) % most);
    };
    if (pick(0, 3) == 0) {
      runner.add({.prompt = 1 + pick(1, 30),
                  .output = 1 + pick(2, 40),
                  .priority = static_cast<int>(pick(3, 3)),
                  .first = static_cast<int32_t>(pick(4, 3))});
    }
    if (pick(5, 7) == 0) {
      const std::vector<uint64_t> ids = runner.scheduler().ids();
      if (!ids.empty()) {
        runner.scheduler().remove(ids[static_cast<size_t>(pick(6, ids.size()))]);
      }
    }
    runner.step();
  }
  for (int i = 0; i < 20000 && !runner.scheduler().idle(); ++i) {
    ASSERT_FALSE(runner.step().empty());
  }
  EXPECT_TRUE(runner.scheduler().idle());
  EXPECT_EQ(runner.scheduler().blocks().num_free(), 24);
  EXPECT_LE(runner.most_preemptions(), Scheduler::kMostPreemptions);
  EXPECT_GT(runner.scheduler().counters().prefix_hits, 0);
}

TEST(Scheduler, ExpiryLooksAtDeadlineAndQueueLimit) {
  Runner runner(make_options(100));
  const uint64_t a = runner.add({.prompt = 2, .output = 9});
  const uint64_t b = runner.add({.prompt = 2, .output = 9});
  const uint64_t c = runner.add({.prompt = 2, .output = 9});
  runner.scheduler().find(a)->request.deadline_s = 5;
  runner.scheduler().find(b)->request.queue_limit_s = 1;
  runner.scheduler().find(c)->request.queue_limit_s = 1;
  runner.step({.max_running = 2, .prefill_beside_decode = 8});
  EXPECT_EQ(runner.scheduler().expired(2), (std::vector<uint64_t>{c}));
  EXPECT_EQ(runner.scheduler().expired(6).size(), 2U);
}

}  // namespace
}  // namespace plait
