// Options that several plan subcommands share.
#pragma once

#include <string>
#include <vector>

#include "plan/search.h"

namespace CLI {
class App;
}

namespace plait {

struct PlanFlags {
  std::string model;
  std::string cluster;
  std::string stack = "mindspeed";
  std::string dtype = "bf16";
  std::string layout;
  std::string recompute = "none";
  std::string stage_layers;
  std::string schedule;
  std::string cp_algorithm = "ring";
  int devices = 0;
  int64_t global_batch = 0;
  int64_t micro_batch = 1;
  int64_t seq = 0;
  int64_t recompute_layers = -1;
  int64_t vocab_multiple = 1;
  int etp = 0;
  int64_t lora_rank = 0;
  double dropout = 0;
  bool no_flash = false;
  bool pp_before_dp = false;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  bool overlap_tp_comm = false;
  bool reuse_fp32_param = false;
  bool offload_optimizer = false;
  bool json = false;
  std::string html;  // a file to write
};

// The model, the cluster and the batch.
void add_problem_options(CLI::App& app, PlanFlags& flags);
// One layout.
void add_layout_options(CLI::App& app, PlanFlags& flags);

// Everything but the layout. Errors: kInvalidArgument, kNotFound naming the flag.
TrainJob job_of(const PlanFlags& flags);
// With the layout; dp follows from the devices if the string leaves it out.
TrainJob job_with_layout(const PlanFlags& flags, const std::string& layout);
Cluster cluster_of(const PlanFlags& flags, int devices);

}  // namespace plait
