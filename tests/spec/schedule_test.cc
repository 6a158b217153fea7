#include "spec/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "base/error.h"

namespace plait {
namespace {

// All options that exist with pp <= 8, vpp <= 4, up to 16 micro-batches.
std::vector<ScheduleOptions> all_options() {
  std::vector<ScheduleOptions> all;
  for (int pp = 1; pp <= 8; ++pp) {
    for (int m = 1; m <= 16; ++m) {
      all.push_back({.kind = ScheduleKind::kGpipe, .pp = pp, .num_microbatches = m});
      all.push_back({.kind = ScheduleKind::kOneFOneB, .pp = pp, .num_microbatches = m});
      for (int vpp = 1; vpp <= 4; ++vpp) {
        if (pp > 1 && m % pp == 0) {
          all.push_back(
              {.kind = ScheduleKind::kInterleaved, .pp = pp, .vpp = vpp, .num_microbatches = m});
        }
      }
    }
  }
  return all;
}

std::string describe(const ScheduleOptions& options) {
  return fmt::format("{} pp{} vpp{} m{}", schedule_name(options.kind), options.pp, options.vpp,
                     options.num_microbatches);
}

// Runs the stages over FIFO channels, one per direction and pair of neighbours, as the process
// groups provide them: a receive waits, a send does not. Forwards take `forward` and backwards
// `backward` seconds; transfers none.
class Simulation {
 public:
  Simulation(const ScheduleOptions& options, double forward, double backward)
      : options_(options),
        forward_(forward),
        backward_(backward),
        schedule_(make_schedule(options)),
        next_(schedule_.size(), 0),
        time_(schedule_.size(), 0) {}

  // False if it gets stuck or a message arrives that the receiver does not expect.
  bool run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int stage = 0; stage < options_.pp; ++stage) {
        while (step(stage)) {
          moved = true;
        }
      }
    }
    for (size_t s = 0; s < schedule_.size(); ++s) {
      ok_ = ok_ && next_[s] == schedule_[s].size();
    }
    for (const auto& [channel, messages] : channels_) {
      ok_ = ok_ && messages.empty();
    }
    return ok_;
  }

  double makespan() const { return *std::max_element(time_.begin(), time_.end()); }

 private:
  struct Message {
    int virtual_stage = 0;  // of the sender
    int microbatch = 0;
    double time = 0;
  };

  bool step(int stage) {
    const auto s = static_cast<size_t>(stage);
    if (!ok_ || next_[s] == schedule_[s].size()) {
      return false;
    }
    const Action& action = schedule_[s][next_[s]];
    const int virtual_stage = action.chunk * options_.pp + stage;
    const int after = (stage + 1) % options_.pp;
    const int before = (stage + options_.pp - 1) % options_.pp;
    switch (action.kind) {
      case ActionKind::kForward:
        time_[s] += forward_;
        break;
      case ActionKind::kBackward:
        time_[s] += backward_;
        break;
      case ActionKind::kSendForward:
        channels_[{true, stage, after}].push_back({virtual_stage, action.microbatch, time_[s]});
        break;
      case ActionKind::kSendBackward:
        channels_[{false, stage, before}].push_back({virtual_stage, action.microbatch, time_[s]});
        break;
      case ActionKind::kRecvForward:
        if (!receive({true, before, stage}, virtual_stage - 1, action.microbatch)) {
          return false;
        }
        break;
      case ActionKind::kRecvBackward:
        if (!receive({false, after, stage}, virtual_stage + 1, action.microbatch)) {
          return false;
        }
        break;
      case ActionKind::kWeightGradient:
      case ActionKind::kReduce:
        break;
    }
    ++next_[s];
    return true;
  }

  // Direction, sender, receiver.
  using Channel = std::tuple<bool, int, int>;
  bool receive(const Channel& channel, int sender, int microbatch) {
    std::deque<Message>& messages = channels_[channel];
    if (messages.empty()) {
      return false;
    }
    const Message message = messages.front();
    messages.pop_front();
    ok_ = ok_ && message.virtual_stage == sender && message.microbatch == microbatch;
    double& time = time_[static_cast<size_t>(std::get<2>(channel))];
    time = std::max(time, message.time);
    return ok_;
  }

  ScheduleOptions options_;
  double forward_, backward_;
  std::vector<std::vector<Action>> schedule_;
  std::vector<size_t> next_;
  std::vector<double> time_;
  std::map<Channel, std::deque<Message>> channels_;
  bool ok_ = true;
};

TEST(Schedule, EveryForwardAndBackwardOnceAndInOrder) {
  for (const ScheduleOptions& options : all_options()) {
    SCOPED_TRACE(describe(options));
    const auto schedule = make_schedule(options);
    ASSERT_EQ(static_cast<int>(schedule.size()), options.pp);
    for (const std::vector<Action>& actions : schedule) {
      std::map<std::pair<int, int>, int> forwards, backwards;
      std::map<int, int> reduces, backwards_of_chunk;
      for (const Action& action : actions) {
        const std::pair key(action.chunk, action.microbatch);
        if (action.kind == ActionKind::kForward) {
          ASSERT_EQ(++forwards[key], 1);
        } else if (action.kind == ActionKind::kBackward) {
          ASSERT_EQ(forwards[key], 1) << "backward before forward";
          ASSERT_EQ(++backwards[key], 1);
          // Its gradients are complete with the last micro-batch.
          ASSERT_EQ(backwards_of_chunk[action.chunk]++, action.microbatch);
        } else if (action.kind == ActionKind::kReduce) {
          ASSERT_EQ(++reduces[action.chunk], 1);
          ASSERT_EQ(backwards_of_chunk[action.chunk], options.num_microbatches);
        }
      }
      const auto expected =
          static_cast<size_t>(options.vpp) * static_cast<size_t>(options.num_microbatches);
      ASSERT_EQ(forwards.size(), expected);
      ASSERT_EQ(backwards.size(), expected);
      ASSERT_EQ(static_cast<int>(reduces.size()), options.vpp);
    }
  }
}

TEST(Schedule, TransfersSurroundTheirComputation) {
  for (const ScheduleOptions& options : all_options()) {
    SCOPED_TRACE(describe(options));
    const auto schedule = make_schedule(options);
    const int last = options.pp * options.vpp - 1;
    for (int stage = 0; stage < options.pp; ++stage) {
      const std::vector<Action>& actions = schedule[static_cast<size_t>(stage)];
      for (size_t i = 0; i < actions.size(); ++i) {
        const Action& action = actions[i];
        const bool forward = action.kind == ActionKind::kForward;
        if (!forward && action.kind != ActionKind::kBackward) {
          continue;
        }
        const int virtual_stage = action.chunk * options.pp + stage;
        const auto at = [&](size_t index, ActionKind kind) {
          return index < actions.size() &&
                 actions[index] == Action{kind, action.chunk, action.microbatch};
        };
        ASSERT_EQ(at(i - 1, forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward),
                  forward ? virtual_stage > 0 : virtual_stage < last);
        ASSERT_EQ(at(i + 1, forward ? ActionKind::kSendForward : ActionKind::kSendBackward),
                  forward ? virtual_stage < last : virtual_stage > 0);
      }
    }
  }
}

TEST(Schedule, RunsWithoutDeadlockAndMessagesMatch) {
  for (const ScheduleOptions& options : all_options()) {
    ASSERT_TRUE(Simulation(options, 1, 2).run()) << describe(options);
  }
}

TEST(Schedule, InFlightMicrobatchesAreTheTextbookNumbers) {
  for (const ScheduleOptions& options : all_options()) {
    SCOPED_TRACE(describe(options));
    const auto schedule = make_schedule(options);
    const int m = options.num_microbatches;
    for (int stage = 0; stage < options.pp; ++stage) {
      const int total = max_in_flight_total(schedule[static_cast<size_t>(stage)]);
      switch (options.kind) {
        case ScheduleKind::kGpipe:
          ASSERT_EQ(total, m);
          break;
        case ScheduleKind::kOneFOneB:
          ASSERT_EQ(total, std::min(m, options.pp - stage));
          break;
        case ScheduleKind::kZeroBubbleH1:
          ASSERT_EQ(total, std::min(m, options.pp));
          break;
        case ScheduleKind::kInterleaved: {
          // Megatron-LM's warm-up forwards, and one more before the first backward.
          const int warmup = (options.pp - stage - 1) * 2 + (options.vpp - 1) * options.pp;
          ASSERT_EQ(total, std::min(m * options.vpp, warmup + 1));
          break;
        }
      }
      int sum = 0;
      for (int chunk = 0; chunk < options.vpp; ++chunk) {
        const int in_chunk = max_in_flight(schedule[static_cast<size_t>(stage)], chunk);
        ASSERT_LE(in_chunk, m);
        sum += in_chunk;
      }
      ASSERT_GE(sum, total);
    }
  }
}

// The first stage of interleaving keeps 1 + (p-1)/(p v) times the layers of 1f1b (Korthikanti et
// al. 2022): p v + p - 1 chunks of 1/v stage.
TEST(Schedule, InterleavingCostsTheKnownFactorOfMemory) {
  for (int pp = 2; pp <= 8; ++pp) {
    for (int vpp = 1; vpp <= 4; ++vpp) {
      const auto schedule = make_schedule(
          {.kind = ScheduleKind::kInterleaved, .pp = pp, .vpp = vpp, .num_microbatches = 4 * pp});
      EXPECT_EQ(max_in_flight_total(schedule.front()), pp * vpp + pp - 1);
    }
  }
}

// Idle seconds of the pipeline: (p-1)(F+B) for gpipe and 1f1b, that over v under interleaving,
// with F and B of a whole stage.
TEST(Schedule, BubbleIsTheClosedForm) {
  for (const ScheduleOptions& options : all_options()) {
    for (const double backward_cost : {1.0, 2.0, 3.0}) {
      const double forward = 12.0 / options.vpp;
      const double backward = 12.0 * backward_cost / options.vpp;
      Simulation simulation(options, forward, backward);
      ASSERT_TRUE(simulation.run());
      const double ideal = options.num_microbatches * options.vpp * (forward + backward);
      ASSERT_NEAR(simulation.makespan() - ideal, (options.pp - 1) * (forward + backward), 1e-6)
          << describe(options) << " backward " << backward_cost;
    }
  }
}

TEST(Schedule, RefusesCombinationsThatDoNotExist) {
  const auto code = [](const ScheduleOptions& options) {
    try {
      make_schedule(options);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kIo;
  };
  EXPECT_EQ(code({.kind = ScheduleKind::kInterleaved, .pp = 1, .vpp = 2, .num_microbatches = 4}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.kind = ScheduleKind::kInterleaved, .pp = 4, .vpp = 2, .num_microbatches = 6}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.kind = ScheduleKind::kOneFOneB, .pp = 4, .vpp = 2, .num_microbatches = 4}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.kind = ScheduleKind::kGpipe, .pp = 4, .vpp = 2, .num_microbatches = 4}),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace plait
