// Fitting the few constants of a cluster to measured runs, and how well that carries over to models
// that were left out.
#pragma once

#include <string>
#include <vector>

#include "plan/score.h"

namespace plait {

// A figure of the cluster that may be fitted.
struct FittedFigure {
  std::string name;  // "gemm_efficiency"
  double before = 0;
  double after = 0;
};

struct FitResult {
  Cluster cluster;
  std::vector<FittedFigure> figures;
  double mape = 0;  // on the runs it was fitted to
};

// Coordinate descent on the mean relative error over GEMM efficiency and size, attention and memory
// efficiency, host time and the efficiency of both links; each stays within its physical range and
// within a factor of 4 of where it starts.
FitResult fit_cluster(const std::vector<MeasuredRun>& runs, const Cluster& start);

// Every model predicted with constants fitted to the other models.
struct HoldOut {
  std::vector<ModelMetrics> models;
  Metrics all;
  int models_in_table = 0;
};
HoldOut leave_one_model_out(const ScoreTable& table, const Cluster& start);

}  // namespace plait
