// Measures this machine through plait's own kernels and collectives, for the planner.
#pragma once

#include <functional>
#include <string>

#include "topology/cluster.h"

namespace plait {

struct CalibrateOptions {
  // Threads of a rank: the figures hold for ranks with as many. 0: one.
  int threads = 0;
  // Small sizes and few repetitions: seconds instead of a minute, less exact.
  bool quick = false;
  std::string command = "plait plan calibrate";      // named as the source of the figures
  std::function<void(const std::string&)> progress;  // one line before each part; may be empty
};

// A cluster of one server, this machine: Cluster::cores cores, shared by ranks of `threads` threads
// that talk through comm/local. Every figure is the best of many runs, so that other work on the
// machine weighs little; figures that others are derived from are fitted (calibrate/fit.h).
// Takes all cores while it runs. Errors: kInvalidArgument for threads beyond the cores.
Cluster calibrate_machine(const CalibrateOptions& options);

// What was measured, as lines for people.
std::string calibration_text(const Cluster& cluster);

// The file that load_cluster reads: catalog/clusters.toml has the form.
std::string cluster_file_text(const Cluster& cluster);

}  // namespace plait
