#include "base/json_full.h"
#include "plan/neighbours.h"
#include "plan/report.h"

namespace plait {
namespace {

Json range_json(const Range& range) {
  return {{"low", range.low}, {"best", range.best}, {"high", range.high}};
}

Json layout_json(const TrainJob& job) {
  const Layout& l = job.layout;
  Json json = {{"layout", to_string(l)},
               {"description", describe_layout(job)},
               {"dp", l.dp},
               {"tp", l.tp},
               {"pp", l.pp},
               {"vpp", l.vpp},
               {"cp", l.cp},
               {"pp_before_dp", job.pp_before_dp},
               {"ep", l.ep},
               {"sp", l.sp},
               {"zero", l.zero},
               {"schedule", schedule_name(l.schedule)},
               {"recompute", recompute_name(l.recompute)},
               {"recompute_layers", job.recompute_layers},
               {"micro_batch", job.batch.micro_batch_size},
               {"global_batch", job.batch.global_batch_size},
               {"seq_len", job.batch.seq_len},
               {"stack", stack_name(job.stack)},
               {"dtype", dtype_name(job.dtype)}};
  json["stage_layers"] = l.stage_layers;
  return json;
}

Json stage_json(const StageMemoryPlan& stage) {
  const StageBytes& b = stage.bytes;
  return {{"stage", stage.stage},
          {"parameters", stage.parameters},
          {"micro_batches_in_flight", stage.max_in_flight},
          {"weights", b.weights},
          {"gradients", b.gradients},
          {"optimizer", b.optimizer},
          {"activations", b.activations},
          {"logits", b.logits},
          {"transient", b.transient},
          {"comm", b.comm},
          {"peak", range_json(stage.peak)},
          {"first_step_peak", stage.first_step_peak},
          {"fit", fit_name(stage.fit)}};
}

Json metrics_json(const Metrics& m, const Ranking& r) {
  return {{"runs", m.runs},       {"mape", m.mape},     {"p90", m.p90},
          {"worst", m.worst},     {"bias", m.bias},     {"inside_interval", m.inside},
          {"kendall_tau", r.tau}, {"regret", r.regret}, {"questions", r.questions}};
}

Json sourced_json(const Sourced& figure) {
  return {{"value", figure.value},
          {"provenance", provenance_name(figure.provenance)},
          {"source", figure.source}};
}

Json layout_estimate_json(const TrainJob& job, const Cluster& cluster, const Estimate& estimate) {
  const StepTime& t = estimate.time;
  Json json = {
      {"model", job.model_name}, {"layout", layout_json(job)}, {"fit", fit_name(estimate.fit)}};
  json["capacity"] = estimate.capacity;
  json["stages"] = Json::array();
  for (const StageMemoryPlan& stage : estimate.stages) {
    json["stages"].push_back(stage_json(stage));
  }
  json["step_s"] = range_json(t.step);
  json["time"] = {{"compute", t.compute},
                  {"recompute", t.recompute},
                  {"tp_exposed", t.tp_exposed},
                  {"cp_exposed", t.cp_exposed},
                  {"ep_exposed", t.ep_exposed},
                  {"dp_exposed", t.dp_exposed},
                  {"pp_exposed", t.pp_exposed},
                  {"bubble", t.bubble},
                  {"optimizer", t.optimizer},
                  {"host", t.host},
                  {"turns", t.turns}};
  const AxisTraffic& a = estimate.traffic;
  json["traffic_bytes"] = {{"tp", a.tp}, {"cp", a.cp}, {"ep", a.ep}, {"dp", a.dp}, {"pp", a.pp}};
  json["tokens_per_second_per_device"] = estimate.tokens_per_second_per_device;
  json["mfu"] = estimate.mfu;
  json["cluster"] = {{"name", cluster.name},
                     {"chip", cluster.chip.name},
                     {"peak_16bit", sourced_json(cluster.chip.peak_16bit)},
                     {"memory_bytes", sourced_json(cluster.chip.memory_bytes)},
                     {"memory_bandwidth", sourced_json(cluster.chip.memory_bandwidth)},
                     {"gemm_efficiency", sourced_json(cluster.chip.gemm_efficiency)},
                     {"intra_bandwidth", sourced_json(cluster.intra.bandwidth)},
                     {"inter_bandwidth", sourced_json(cluster.inter.bandwidth)},
                     {"uncertainty", sourced_json(cluster.uncertainty)}};
  return json;
}

}  // namespace

std::string estimate_json(const TrainJob& job, const Cluster& cluster, const Estimate& estimate) {
  return dump_json(layout_estimate_json(job, cluster, estimate), 2);
}

std::string search_json(const SearchRequest& request, const SearchResult& result) {
  const SearchCounts& c = result.counts;
  Json json = {{"model", request.job.model_name}, {"devices", request.devices}};
  json["counts"] = {{"enumerated", c.enumerated},
                    {"invalid", c.invalid},
                    {"pruned_memory", c.pruned_memory},
                    {"pruned_bound", c.pruned_bound},
                    {"simulated", c.simulated},
                    {"seconds", c.seconds},
                    {"enumerate_seconds", c.enumerate_seconds}};
  json["best"] = Json::array();
  for (const Candidate& candidate : result.best) {
    json["best"].push_back(
        layout_estimate_json(candidate.job, request.cluster, candidate.estimate));
  }
  json["neighbours"] = Json::array();
  for (const Neighbour& neighbour : result.neighbours) {
    json["neighbours"].push_back({{"change", neighbour.change},
                                  {"reason", neighbour.reason},
                                  {"step_s", neighbour.candidate.estimate.time.step.best},
                                  {"fit", fit_name(neighbour.candidate.estimate.fit)}});
  }
  if (result.nearest) {
    json["nearest"] = estimate_json(result.nearest->job, request.cluster, result.nearest->estimate);
  }
  if (!result.best.empty()) {
    json["explanation"] = explain_choice(result.best.front(), result.neighbours);
  }
  return dump_json(json, 2);
}

std::string score_json(const ScoreTable& table, const ScoreReport& report) {
  Json json = {{"table", table.origin}};
  json["plait"] = metrics_json(report.ours, report.ranking);
  json["constant"] = metrics_json(report.constant, report.constant_ranking);
  json["constant"]["tflops"] = report.constant_tflops;
  json["closed_form"] = metrics_json(report.closed_form, report.closed_form_ranking);
  json["assumptions"] = table.assumptions;
  json["skipped"] = table.skipped;
  json["impossible"] = table.impossible;
  for (const std::string& row : report.impossible) {
    json["impossible"].push_back(row);
  }
  json["models"] = Json::array();
  for (const ModelMetrics& model : report.models) {
    json["models"].push_back({{"model", model.model},
                              {"runs", model.metrics.runs},
                              {"mape", model.metrics.mape},
                              {"bias", model.metrics.bias}});
  }
  json["runs"] = Json::array();
  for (const ScoredRun& run : report.runs) {
    json["runs"].push_back({{"line", run.run->line},
                            {"model", run.run->model},
                            {"layout", describe_layout(run.run->job)},
                            {"measured_s", run.run->step_s},
                            {"predicted_s", run.predicted_s}});
  }
  return dump_json(json, 2);
}

}  // namespace plait
