#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/json_full.h"
#include "cli/commands.h"
#include "cli/plan_flags.h"
#include "plan/explain.h"
#include "plan/serve_estimate.h"
#include "spec/model_catalog.h"

namespace plait {
namespace {

struct PlanServeFlags {
  ServeRequest request;
  std::string model;
  std::string cluster;
  bool json = false;
};

Json serve_json(const ServeEstimate& e) {
  return {{"weights_bytes", e.weights},
          {"activation_bytes", e.activations},
          {"kv_capacity_bytes", e.kv_capacity},
          {"kv_bytes_per_token", e.kv_per_token},
          {"kv_bytes_per_token_device", e.kv_per_token_device},
          {"max_tokens", e.max_tokens},
          {"concurrent_sequences", e.concurrent},
          {"prefill_s", e.prefill_s},
          {"decode_s", e.decode_s},
          {"decode_full_s", e.decode_full_s},
          {"saturation_rate", e.saturation_rate},
          {"saturated", e.saturated},
          {"ttft_s", e.ttft_s > 0 ? Json(e.ttft_s) : Json(nullptr)},
          {"tpot_s", e.tpot_s > 0 ? Json(e.tpot_s) : Json(nullptr)},
          {"rules_of_thumb", {{"weights_x_1.2", e.weights_rule}, {"kv_shortcut", e.kv_rule}}}};
}

int run_plan_serve(PlanServeFlags& flags) {
  ServeRequest& request = flags.request;
  request.model_name = flags.model;
  request.model = find_model(flags.model);
  request.cluster = load_cluster(flags.cluster);
  const ServeEstimate estimate = estimate_serving(request);
  std::fputs(flags.json ? (dump_json(serve_json(estimate), 2) + "\n").c_str()
                        : serve_text(request, estimate).c_str(),
             stdout);
  return estimate.saturated || estimate.concurrent < 1 ? 1 : 0;
}

struct ExplainFlags {
  PlanFlags plan;
  std::string measured;
  double step = 0;
};

int run_explain(const ExplainFlags& flags) {
  const TrainJob job = job_with_layout(flags.plan, flags.plan.layout);
  check_job(job, flags.plan.devices);
  Measured measured;
  if (!flags.measured.empty()) {
    measured = read_measured(flags.measured);
  }
  if (flags.step > 0) {
    measured.step = flags.step;
  }
  if (!measured.step && measured.memory.empty()) {
    throw_error(ErrorCode::kInvalidArgument,
                "nothing to explain: give --measured FILE or --step-s SECONDS");
  }
  const Cluster cluster = cluster_of(flags.plan, job.layout.world_size());
  check_chip(job, cluster.chip);
  const Estimate estimate = estimate_job(job, cluster);
  const Explanation explanation = explain_measured(measured, job, estimate);
  if (!flags.plan.json) {
    std::fputs(explanation_text(explanation).c_str(), stdout);
    return 0;
  }
  Json terms = Json::array();
  for (const Difference& d : explanation.differences) {
    terms.push_back({{"term", d.term},
                     {"unit", d.seconds ? "s" : "B"},
                     {"predicted", d.predicted},
                     {"measured", d.measured},
                     {"differs", d.differs},
                     {"meaning", d.meaning}});
  }
  std::puts(dump_json({{"verdict", explanation.verdict}, {"terms", std::move(terms)}}, 2).c_str());
  return 0;
}

}  // namespace

void add_plan_serve_command(CLI::App& plan, Command& chosen) {
  auto flags = std::make_shared<PlanServeFlags>();
  ServeRequest& r = flags->request;
  CLI::App* serve = plan.add_subcommand("serve", "memory, latency and saturation of serving");
  serve->add_option("--model", flags->model, "catalogue name, HF directory or config.json")
      ->required();
  serve->add_option("--cluster", flags->cluster, "catalogue name or TOML file")->required();
  serve->add_option("--tp", r.tp)->capture_default_str();
  serve->add_option("--pp", r.pp)->capture_default_str();
  serve->add_option("--prompt", r.prompt, "tokens of a request's prompt")->required();
  serve->add_option("--output", r.output, "tokens of its answer")->required();
  serve->add_option("--rate", r.rate, "requests a second on one replica");
  serve->add_option("--memory-utilization", r.memory_utilization)->capture_default_str();
  serve->add_option("--max-num-seqs", r.max_num_seqs)->capture_default_str();
  serve->add_option("--weight-bytes", r.weight_bytes, "per parameter")->capture_default_str();
  serve->add_option("--kv-bytes", r.kv_bytes, "per element of the cache")->capture_default_str();
  serve->add_flag("--graph-mode", r.graph_mode, "kernels launched as a captured graph");
  serve->add_flag("--json", flags->json);
  serve->footer(
      "Example: plait plan serve --model Qwen3-8B --cluster 910b3 --prompt 2048 --output 256 "
      "--rate 2");
  serve->callback([&chosen, flags] { chosen = [flags] { return run_plan_serve(*flags); }; });
}

void add_plan_explain_command(CLI::App& plan, Command& chosen) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* explain = plan.add_subcommand("explain", "why a measured step differs from the plan");
  add_problem_options(*explain, flags->plan);
  add_layout_options(*explain, flags->plan);
  explain->add_option("--measured", flags->measured,
                      "step_trace_time.csv of torch_npu, or lines step_s=, compute_s=, "
                      "communication_s=, free_s=, memory_gib=");
  explain->add_option("--step-s", flags->step, "measured seconds of a step")
      ->check(CLI::PositiveNumber);
  explain->callback([&chosen, flags] { chosen = [flags] { return run_explain(*flags); }; });
}

}  // namespace plait
