#include "plan/score_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "plan/estimate.h"

namespace plait {
namespace {

struct Knob {
  const char* name;
  double& (*of)(Cluster&);
  double most;
};
constexpr double kNoLimit = 1e30;
const std::array<Knob, 7>& knobs() {
  static const std::array<Knob, 7> all = {{
      {"gemm_efficiency", [](Cluster& c) -> double& { return c.chip.gemm_efficiency.value; }, 1},
      {"gemm_half_flops", [](Cluster& c) -> double& { return c.chip.gemm_half_flops.value; },
       kNoLimit},
      {"attention_efficiency",
       [](Cluster& c) -> double& { return c.chip.attention_efficiency.value; }, 1},
      {"memory_efficiency", [](Cluster& c) -> double& { return c.chip.memory_efficiency.value; },
       1},
      {"launch_s", [](Cluster& c) -> double& { return c.chip.launch_s.value; }, 1e-3},
      {"intra.efficiency", [](Cluster& c) -> double& { return c.intra.efficiency.value; }, 1},
      {"inter.efficiency", [](Cluster& c) -> double& { return c.inter.efficiency.value; }, 1},
  }};
  return all;
}

// At most this many runs are looked at in one trial, evenly spread.
constexpr size_t kMostRuns = 200;

double mean_error(const std::vector<MeasuredRun>& runs, const Cluster& cluster) {
  const size_t stride = std::max<size_t>(1, runs.size() / kMostRuns);
  double sum = 0;
  double count = 0;
  for (size_t i = 0; i < runs.size(); i += stride) {
    const Cluster sized = with_devices(cluster, runs[i].devices);
    sum += std::abs(estimate_job(runs[i].job, sized).time.step.best / runs[i].step_s - 1);
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

std::vector<ScoredRun> predict(const std::vector<const MeasuredRun*>& runs,
                               const Cluster& cluster) {
  std::vector<ScoredRun> scored;
  for (const MeasuredRun* run : runs) {
    const StepTime t = estimate_job(run->job, with_devices(cluster, run->devices)).time;
    scored.push_back({run, t.step.best, t.step.low, t.step.high});
  }
  return scored;
}

}  // namespace

FitResult fit_cluster(const std::vector<MeasuredRun>& runs, const Cluster& start) {
  constexpr double kMostFactor = 4;
  FitResult fit{start, {}, mean_error(runs, start)};
  double factor = 1.5;
  while (factor > 1.02) {
    bool moved = false;
    for (const Knob& knob : knobs()) {
      Cluster origin = start;
      const double from = knob.of(origin);
      for (const double step : {factor, 1 / factor}) {
        Cluster trial = fit.cluster;
        double& value = knob.of(trial);
        value *= step;
        if (value > knob.most || value > from * kMostFactor || value < from / kMostFactor) {
          continue;
        }
        const double error = mean_error(runs, trial);
        if (error < fit.mape - 1e-5) {
          fit.mape = error;
          fit.cluster = trial;
          moved = true;
        }
      }
    }
    factor = moved ? factor : std::sqrt(factor);
  }
  for (const Knob& knob : knobs()) {
    Cluster before = start;
    fit.figures.push_back({knob.name, knob.of(before), knob.of(fit.cluster)});
  }
  return fit;
}

HoldOut leave_one_model_out(const ScoreTable& table, const Cluster& start) {
  std::map<std::string, std::vector<const MeasuredRun*>> models;
  for (const MeasuredRun& run : table.runs) {
    models[run.model].push_back(&run);
  }
  HoldOut result;
  result.models_in_table = static_cast<int>(models.size());
  if (models.size() < 2) {
    return result;
  }
  std::vector<ScoredRun> all;
  for (const auto& [model, held_out] : models) {
    std::vector<MeasuredRun> rest;
    for (const MeasuredRun& run : table.runs) {
      if (run.model != model) {
        rest.push_back(run);
      }
    }
    const std::vector<ScoredRun> scored = predict(held_out, fit_cluster(rest, start).cluster);
    result.models.push_back({model, metrics_of(scored)});
    all.insert(all.end(), scored.begin(), scored.end());
  }
  result.all = metrics_of(all);
  return result;
}

}  // namespace plait
