// How good the planner's predictions are on measured runs.
#pragma once

#include <string>
#include <vector>

#include "plan/score_table.h"
#include "topology/cluster.h"

namespace plait {

struct Metrics {
  int runs = 0;
  double mape = 0;  // mean |predicted / measured - 1|
  double p90 = 0;   // of the same
  double worst = 0;
  double bias = 0;    // median of predicted / measured - 1
  double inside = 0;  // share of the runs inside the predicted interval
};

// Choosing among the layouts of one question, averaged over the questions with at least two.
struct Ranking {
  int questions = 0;
  double tau = 0;     // Kendall's tau-b
  double regret = 0;  // measured step of the pick over the best measured, minus 1
};

struct ScoredRun {
  const MeasuredRun* run = nullptr;
  double predicted_s = 0;
  double low_s = 0, high_s = 0;
};

struct ModelMetrics {
  std::string model;
  Metrics metrics;
};

struct ScoreReport {
  std::vector<ScoredRun> runs;
  std::vector<ModelMetrics> models;  // of the predictions, per model, in name order
  Metrics ours;
  Ranking ranking;
  // Baselines on the same rows: the constant TFLOP/s per chip that fits them best, and the closed
  // form without overlap (perfect products at the best constant efficiency, ring collectives, the
  // bubble (p - 1) / m).
  Metrics constant;
  double constant_tflops = 0;
  Ranking constant_ranking;
  Metrics closed_form;
  Ranking closed_form_ranking;
  std::vector<std::string> impossible;  // faster than the chip's peak: flagged, not scored
};

// The cluster's devices are set to each row's.
ScoreReport score_runs(const ScoreTable& table, const Cluster& cluster);

Metrics metrics_of(const std::vector<ScoredRun>& runs);
Ranking ranking_of(const std::vector<ScoredRun>& runs);

}  // namespace plait
