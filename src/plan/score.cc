#include "plan/score.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/statistics.h"
#include "plan/comm_model.h"
#include "plan/estimate.h"
#include "plan/layer_work.h"
#include "plan/parameter_split.h"
#include "spec/model_flops.h"

namespace plait {
namespace {

double run_flops(const MeasuredRun& run) {
  const auto tokens = static_cast<double>(run.job.batch.global_batch_size * run.job.batch.seq_len);
  return tokens * model_flops_per_token(run.job.model, run.job.batch.seq_len);
}

// Seconds of a step at the peak, with the bubble, and of its collectives without overlap.
struct ClosedForm {
  double compute = 0;
  double comm = 0;
};

ClosedForm closed_form(const MeasuredRun& run, const Cluster& cluster) {
  const TrainJob& job = run.job;
  const auto m = static_cast<double>(job.batch.num_microbatches(job.layout));
  const double bubble = (job.layout.pp - 1) / (m * job.layout.vpp);
  const double redo = job.layout.recompute == Recompute::kFull ? 4.0 / 3 : 1;
  ClosedForm form;
  form.compute = run_flops(run) * redo / run.devices / cluster.chip.peak_16bit.value * (1 + bubble);
  const double layers = static_cast<double>(job.model.num_layers) / job.layout.pp;
  const double activation =
      static_cast<double>(job.batch.micro_batch_size * job.batch.seq_len * job.model.hidden_size) *
      2;
  form.comm = m * (1 + bubble) * layers * (redo > 1 ? 6 : 4) *
              collective_seconds(cluster, group_place(job, CommAxis::kTp),
                                 CollectiveKind::kAllReduce, activation);
  double largest = 0;
  for (const StageParameters& stage : stage_split(job, section_counts(job)).parameters) {
    largest = std::max(largest, stage.total());
  }
  form.comm += collective_seconds(cluster, group_place(job, CommAxis::kDp),
                                  CollectiveKind::kAllReduce, 4 * largest);
  return form;
}

// Concordant pairs minus discordant ones over the geometric mean of the untied pairs.
double kendall_tau(const std::vector<const ScoredRun*>& runs) {
  double agree = 0;
  double untied_a = 0;
  double untied_b = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (size_t j = i + 1; j < runs.size(); ++j) {
      const double a = runs[i]->predicted_s - runs[j]->predicted_s;
      const double b = runs[i]->run->step_s - runs[j]->run->step_s;
      untied_a += a != 0 ? 1 : 0;
      untied_b += b != 0 ? 1 : 0;
      agree += a * b > 0 ? 1 : a * b < 0 ? -1 : 0;
    }
  }
  const double pairs = std::sqrt(untied_a * untied_b);
  return pairs > 0 ? agree / pairs : 0;
}

// The factor on `base` that gives the smallest mean error: the weighted median of the ratios.
double best_factor(const std::vector<double>& base, const std::vector<const MeasuredRun*>& runs) {
  std::vector<double> ratios;
  for (size_t i = 0; i < base.size(); ++i) {
    ratios.push_back(runs[i]->step_s / base[i]);
  }
  double best = 1;
  double best_error = -1;
  for (const double factor : ratios) {
    double error = 0;
    for (const double ratio : ratios) {
      error += std::abs(factor / ratio - 1);
    }
    if (best_error < 0 || error < best_error) {
      best_error = error;
      best = factor;
    }
  }
  return best;
}

}  // namespace

Metrics metrics_of(const std::vector<ScoredRun>& runs) {
  Metrics metrics;
  std::vector<double> errors;
  std::vector<double> signed_errors;
  for (const ScoredRun& run : runs) {
    const double error = run.predicted_s / run.run->step_s - 1;
    signed_errors.push_back(error);
    errors.push_back(std::abs(error));
    metrics.mape += std::abs(error);
    metrics.inside += run.low_s <= run.run->step_s && run.run->step_s <= run.high_s ? 1 : 0;
  }
  metrics.runs = static_cast<int>(runs.size());
  if (!runs.empty()) {
    metrics.mape /= static_cast<double>(runs.size());
    metrics.inside /= static_cast<double>(runs.size());
    metrics.p90 = quantile(errors, 0.9);
    metrics.worst = quantile(errors, 1);
    metrics.bias = quantile(signed_errors, 0.5);
  }
  return metrics;
}

Ranking ranking_of(const std::vector<ScoredRun>& runs) {
  std::map<std::string, std::vector<const ScoredRun*>> questions;
  for (const ScoredRun& run : runs) {
    questions[run.run->question].push_back(&run);
  }
  Ranking ranking;
  for (const auto& [question, rivals] : questions) {
    if (rivals.size() < 2) {
      continue;
    }
    ++ranking.questions;
    ranking.tau += kendall_tau(rivals);
    const auto pick = *std::min_element(
        rivals.begin(), rivals.end(),
        [](const ScoredRun* a, const ScoredRun* b) { return a->predicted_s < b->predicted_s; });
    const auto best = *std::min_element(
        rivals.begin(), rivals.end(),
        [](const ScoredRun* a, const ScoredRun* b) { return a->run->step_s < b->run->step_s; });
    ranking.regret += pick->run->step_s / best->run->step_s - 1;
  }
  if (ranking.questions > 0) {
    ranking.tau /= ranking.questions;
    ranking.regret /= ranking.questions;
  }
  return ranking;
}

ScoreReport score_runs(const ScoreTable& table, const Cluster& cluster) {
  ScoreReport report;
  const double peak = cluster.chip.peak_16bit.value;
  std::vector<const MeasuredRun*> kept;
  std::vector<double> flops, forms;
  for (const MeasuredRun& run : table.runs) {
    const double achieved = run_flops(run) / run.step_s / run.devices;
    if (achieved > peak) {
      report.impossible.push_back(
          fmt::format("line {}: {:.0f} TFLOP/s a device, above the chip's peak of {:.0f}", run.line,
                      achieved / 1e12, peak / 1e12));
      continue;
    }
    const Cluster sized = with_devices(cluster, run.devices);
    const Estimate estimate = estimate_job(run.job, sized);
    report.runs.push_back(
        {&run, estimate.time.step.best, estimate.time.step.low, estimate.time.step.high});
    kept.push_back(&run);
    flops.push_back(run_flops(run) / run.devices);
    const ClosedForm form = closed_form(run, sized);
    // One constant for the products, as the tools do that take it from the user.
    forms.push_back(form.compute / 0.5 + form.comm);
  }
  report.ours = metrics_of(report.runs);
  std::map<std::string, std::vector<ScoredRun>> by_model;
  for (const ScoredRun& run : report.runs) {
    by_model[run.run->model].push_back(run);
  }
  for (const auto& [model, runs] : by_model) {
    report.models.push_back({model, metrics_of(runs)});
  }
  report.ranking = ranking_of(report.runs);
  if (kept.empty()) {
    return report;
  }
  const double slope = best_factor(flops, kept);
  const double scale = best_factor(forms, kept);
  report.constant_tflops = 1e-12 / slope;
  std::vector<ScoredRun> constant, form;
  for (size_t i = 0; i < kept.size(); ++i) {
    constant.push_back({kept[i], flops[i] * slope, 0, 0});
    form.push_back({kept[i], forms[i] * scale, 0, 0});
  }
  report.constant = metrics_of(constant);
  report.constant_ranking = ranking_of(constant);
  report.closed_form = metrics_of(form);
  report.closed_form_ranking = ranking_of(form);
  return report;
}

}  // namespace plait
