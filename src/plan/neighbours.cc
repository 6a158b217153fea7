#include "plan/neighbours.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/units.h"

namespace plait {
namespace {

struct TimeTerm {
  const char* name;
  double StepTime::*part;
};
constexpr std::array<TimeTerm, 10> kTerms = {{
    {"compute", &StepTime::compute},
    {"recomputation", &StepTime::recompute},
    {"tp collectives exposed", &StepTime::tp_exposed},
    {"cp exchange exposed", &StepTime::cp_exposed},
    {"expert all_to_all exposed", &StepTime::ep_exposed},
    {"gradient reduction exposed", &StepTime::dp_exposed},
    {"pipeline messages exposed", &StepTime::pp_exposed},
    {"pipeline bubble", &StepTime::bubble},
    {"optimizer", &StepTime::optimizer},
    {"kernel launches", &StepTime::host},
}};

// The term that grew the most; recomputation counts for itself, not as compute.
const char* largest_growth(const StepTime& from, const StepTime& to) {
  const char* name = "";
  double most = 0;
  for (const TimeTerm& term : kTerms) {
    double growth = to.*term.part - from.*term.part;
    if (term.part == &StepTime::compute) {
      growth -= to.recompute - from.recompute;
    }
    if (growth > most) {
      most = growth;
      name = term.name;
    }
  }
  return name;
}

// One step: changes the job, or returns false if there is no such neighbour.
struct Step {
  std::string name;
  std::function<bool(TrainJob&)> apply;
};

bool scale(int& degree, bool up) {
  if (!up && degree % 2 != 0) {
    return false;
  }
  degree = up ? degree * 2 : degree / 2;
  return true;
}

std::vector<Step> steps(const TrainJob& best) {
  std::vector<Step> all;
  const Layout& l = best.layout;
  for (const bool up : {true, false}) {
    auto label = [up](const char* name, int64_t value) {
      return fmt::format("{}{} (was {})", name, up ? value * 2 : value / 2, value);
    };
    all.push_back({label("tp", l.tp), [up](TrainJob& j) { return scale(j.layout.tp, up); }});
    all.push_back({label("pp", l.pp), [up](TrainJob& j) { return scale(j.layout.pp, up); }});
    all.push_back({label("vpp", l.vpp), [up](TrainJob& j) { return scale(j.layout.vpp, up); }});
    all.push_back({label("cp", l.cp), [up](TrainJob& j) { return scale(j.layout.cp, up); }});
    all.push_back({label("ep", l.ep), [up](TrainJob& j) {
                     return j.model.moe.num_experts > 0 && scale(j.layout.ep, up);
                   }});
    all.push_back({label("micro batch ", best.batch.micro_batch_size), [up](TrainJob& j) {
                     int64_t& mb = j.batch.micro_batch_size;
                     if (!up && mb % 2 != 0) {
                       return false;
                     }
                     mb = up ? mb * 2 : mb / 2;
                     return true;
                   }});
  }
  if (l.tp > 1) {
    all.push_back(
        {l.sp ? "without sequence parallelism" : "with sequence parallelism", [](TrainJob& j) {
           j.layout.sp = !j.layout.sp;
           return true;
         }});
  }
  if (l.dp * l.cp > 1) {
    all.push_back(
        {l.zero > 0 ? "optimizer not sharded" : "optimizer sharded (zero1)", [](TrainJob& j) {
           j.layout.zero = j.layout.zero > 0 ? 0 : 1;
           return true;
         }});
  }
  if (l.pp > 1 && l.dp > 1 && l.ep == 1) {
    all.push_back({best.pp_before_dp ? "ranks in the order tp, cp, dp, pp"
                                     : "ranks in the order tp, cp, pp, dp",
                   [](TrainJob& j) {
                     j.pp_before_dp = !j.pp_before_dp;
                     return true;
                   }});
  }
  for (const Recompute mode : {Recompute::kNone, Recompute::kFull}) {
    if (mode != l.recompute || (mode == Recompute::kFull && best.recompute_layers >= 0)) {
      all.push_back({fmt::format("recompute={}{}", recompute_name(mode),
                                 mode == Recompute::kFull ? " on every layer" : ""),
                     [mode](TrainJob& j) {
                       j.layout.recompute = mode;
                       j.recompute_layers = -1;
                       return true;
                     }});
    }
  }
  return all;
}

bool legal(const SearchRequest& request, TrainJob& job) {
  Layout& l = job.layout;
  const int64_t block = int64_t{l.tp} * l.pp * l.cp;
  if (l.vpp < 1 || request.devices % block != 0) {
    return false;
  }
  l.dp = static_cast<int>(request.devices / block);
  l.stage_layers.clear();
  l.schedule = l.vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB;
  l.sp = l.sp && l.tp > 1;
  l.zero = l.dp * l.cp > 1 ? l.zero : 0;
  if (l.pp == 1) {
    l.vpp = 1;
    l.schedule = ScheduleKind::kOneFOneB;
  }
  const int64_t rows = job.batch.micro_batch_size * l.dp;
  if (job.model.num_layers % (l.pp * l.vpp) != 0 || job.batch.global_batch_size % rows != 0 ||
      l.tp > request.cluster.devices_per_server * 2) {
    return false;
  }
  return find_job_problems(job, request.devices).empty();
}

}  // namespace

std::string compare_estimates(const Estimate& best, const Estimate& other) {
  if (other.fit == Fit::kDoesNotFit) {
    const StageMemoryPlan& stage = other.worst_stage();
    return fmt::format("stage {} short by {:.1f} GiB", stage.stage,
                       (stage.peak.best - other.capacity) / kGiB);
  }
  const double ratio = other.time.step.best / best.time.step.best - 1;
  const std::string tight = other.fit == Fit::kTight ? ", memory tight" : "";
  if (std::abs(ratio) < 0.005) {
    return "as fast" + tight;
  }
  const char* term =
      ratio > 0 ? largest_growth(best.time, other.time) : largest_growth(other.time, best.time);
  return fmt::format("{:.0f} % {}: {} {}{}", std::abs(ratio) * 100, ratio > 0 ? "slower" : "faster",
                     ratio > 0 ? "more" : "less", term, tight);
}

std::vector<Neighbour> compare_neighbours(const SearchRequest& request, const Cluster& cluster,
                                          const Candidate& best) {
  std::vector<Neighbour> neighbours;
  for (const Step& step : steps(best.job)) {
    Candidate candidate{best.job, {}};
    if (!step.apply(candidate.job) || !legal(request, candidate.job) ||
        describe_layout(candidate.job) == describe_layout(best.job)) {
      continue;
    }
    candidate.estimate = estimate_job(candidate.job, cluster);
    const std::string reason = compare_estimates(best.estimate, candidate.estimate);
    neighbours.push_back({step.name, reason, std::move(candidate)});
  }
  return neighbours;
}

std::vector<std::string> explain_choice(const Candidate& best,
                                        const std::vector<Neighbour>& neighbours) {
  const StepTime& t = best.estimate.time;
  const double step = t.step.best;
  std::vector<std::string> text;
  text.push_back(fmt::format(
      "{} takes {:.3f} s a step: {:.0f} % compute{}, {:.0f} % exposed communication, {:.0f} % "
      "bubble, {:.0f} % optimizer{}.",
      describe_layout(best.job), step, 100 * t.compute / step,
      t.recompute > 0
          ? fmt::format(" ({:.0f} % of it recomputation)", 100 * t.recompute / t.compute)
          : "",
      100 * (t.tp_exposed + t.cp_exposed + t.ep_exposed + t.dp_exposed + t.pp_exposed) / step,
      100 * t.bubble / step, 100 * t.optimizer / step,
      t.host > 0.01 * step ? fmt::format(", {:.0f} % waiting for launches", 100 * t.host / step)
                           : ""));
  const StageMemoryPlan& stage = best.estimate.worst_stage();
  text.push_back(fmt::format("Its fullest stage ({}) peaks at {:.1f} GiB of {:.1f}.", stage.stage,
                             stage.peak.best / kGiB, best.estimate.capacity / kGiB));
  for (const Neighbour& neighbour : neighbours) {
    text.push_back(fmt::format("{}: {}.", neighbour.change, neighbour.reason));
  }
  return text;
}

}  // namespace plait
