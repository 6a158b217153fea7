// Sums that the readers of all formats keep. Internal to profile/.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "profile/profile.h"

namespace plait {

// Sums of steps; the first is kept apart, since it warms up.
class SplitSum {
 public:
  // The step is at least the sum of its parts: some versions leave `stage` 0 without pipeline
  // stages.
  void add(StepSplit split);
  // The mean, into `rank`.
  void finish(RankProfile& rank);

 private:
  void sum(const StepSplit& split);

  int64_t count_ = 0;
  StepSplit first_, total_;
  double slowest_ = 0;
};

// The entry of a kind of operator; null when there are more kinds than any model has.
OperatorTotal* find_operator(RankProfile& rank, const std::string& type);

// The same of collectives: "hcom_allReduce__123_0_1@456" counts as "hcom_allReduce" of group "456".
CollectiveTotal* find_collective(RankProfile& rank, const std::string& name,
                                 const std::string& group);
CollectiveTotal* find_collective(RankProfile& rank, const std::string& name_at_group);

// The same of links, by source and destination rank.
LinkTotal* find_link(RankProfile& rank, std::pair<int, int> ends);

// Collectives as means of one step.
void divide_collectives(RankProfile& rank, int64_t steps);

}  // namespace plait
