// What a profile says: the mean step over ranks, who is slow, and what would save time.
#pragma once

#include <string>
#include <vector>

#include "profile/profile.h"

namespace plait {

inline constexpr double kMsPerUs = 1e-3;

// One figure over the ranks.
struct Spread {
  double least = 0, median = 0, most = 0;
  int most_rank = 0;
};

// Something to do, and what it would save of a step, with the arithmetic.
struct Advice {
  std::string title;       // "hide gradient reductions behind backward"
  double gain_ms = 0;      // of a step, at most; 0: not known
  std::string arithmetic;  // "10.5 of 58.0 ms are exposed; ..."
  std::string action;      // what to set or to look at
};

struct OperatorShare {
  std::string type, core;
  double ms_per_step = 0;
  double share = 0;  // of the time of all operators
  int64_t count = 0;
  double mean_us = 0;
};

struct LinkSpeed {
  int source = 0, destination = 0;
  std::string transport;
  double gb_per_s = 0;
  double typical = 0;  // median of the same transport
};

struct Analysis {
  StepSplit mean;  // over ranks, microseconds
  int64_t steps = 0;
  Spread step, computing, exposed, free, bubble;
  std::vector<OperatorShare> operators;  // largest first, of all ranks together
  std::vector<LinkSpeed> slow_links;     // below 70 % of what is typical, slowest first
  std::vector<Advice> advice;            // largest gain first
};

Analysis analyse(const Profile& profile);

// One page of text; `width` columns for the bar.
std::string profile_text(const Profile& profile, const Analysis& analysis, int width = 72);
std::string profile_json(const Profile& profile, const Analysis& analysis);

// Before and after: what of a step changed, largest change first.
std::string diff_text(const Analysis& before, const Analysis& after);
std::string diff_json(const Analysis& before, const Analysis& after);

}  // namespace plait
