#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/limits.h"
#include "plan/neighbours.h"
#include "plan/report.h"

namespace plait {
namespace {

double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

std::string gib(double bytes) {
  return fmt::format("{:8.2f}", bytes / kGiB);
}

struct Row {
  const char* name;
  double StepTime::*part;
};
constexpr std::array<Row, 9> kTimeRows = {{
    {"compute", &StepTime::compute},
    {"tp collectives, exposed", &StepTime::tp_exposed},
    {"cp exchange, exposed", &StepTime::cp_exposed},
    {"ep all_to_all, exposed", &StepTime::ep_exposed},
    {"dp reduce and gather, exposed", &StepTime::dp_exposed},
    {"pp messages, exposed", &StepTime::pp_exposed},
    {"pipeline bubble", &StepTime::bubble},
    {"optimizer", &StepTime::optimizer},
    {"waiting for launches", &StepTime::host},
}};

std::string stage_table(const Estimate& estimate) {
  std::string text =
      "  stage  weights  gradients  optimizer  activations   logits  transient     comm |"
      "     peak (range)             fit\n";
  const size_t count = estimate.stages.size();
  for (size_t s = 0; s < count; ++s) {
    // Of a deep pipeline the first, the last and the fullest stages say it all.
    if (count > 16 && s >= 4 && s + 4 < count && &estimate.stages[s] != &estimate.worst_stage()) {
      if (s == 4) {
        text += "    ...\n";
      }
      continue;
    }
    const StageMemoryPlan& stage = estimate.stages[s];
    const StageBytes& b = stage.bytes;
    text +=
        fmt::format("  {:5} {} {}   {}    {} {}   {} {} | {} ({:.1f} .. {:.1f})  {}\n", stage.stage,
                    gib(b.weights), gib(b.gradients), gib(b.optimizer), gib(b.activations),
                    gib(b.logits), gib(b.transient), gib(b.comm), gib(stage.peak.best),
                    stage.peak.low / kGiB, stage.peak.high / kGiB, fit_name(stage.fit));
  }
  return text;
}

std::string indistinguishable(const SearchResult& result) {
  const double high = result.best.front().estimate.time.step.high;
  size_t count = 0;
  for (const Candidate& candidate : result.best) {
    count += candidate.estimate.time.step.low <= high ? 1 : 0;
  }
  return count > 1 ? fmt::format(
                         "The intervals of the first {} overlap: the prediction cannot tell "
                         "them apart; prefer the one with more memory to spare.\n",
                         count)
                   : "";
}

double exposed(const StepTime& t) {
  return t.tp_exposed + t.cp_exposed + t.ep_exposed + t.dp_exposed + t.pp_exposed;
}

}  // namespace

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<int64_t>(bytes));
}

std::string provenance_text(const Cluster& cluster) {
  const Chip& chip = cluster.chip;
  std::string text = fmt::format("Figures of {} ({}):\n", cluster.name, chip.name);
  auto line = [&text](const char* name, const Sourced& figure, double unit, const char* suffix) {
    text += fmt::format("  {:28} {:10.4g} {:8} {:9}  {}\n", name, figure.value / unit, suffix,
                        provenance_name(figure.provenance), figure.source);
  };
  line("memory", chip.memory_bytes, kGiB, "GiB");
  line("reserved, not usable", chip.reserve_bytes, kGiB, "GiB");
  line("peak, 16 bit", chip.peak_16bit, 1e12, "TFLOP/s");
  line("memory bandwidth", chip.memory_bandwidth, 1e9, "GB/s");
  line("GEMM efficiency", chip.gemm_efficiency, 1, "");
  line("GEMM work at half of it", chip.gemm_half_flops, 1e9, "GFLOP");
  if (chip.gemm_weight_bandwidth.value > 0) {
    line("bandwidth of GEMM weights", chip.gemm_weight_bandwidth, 1e9, "GB/s");
  }
  line("attention efficiency", chip.attention_efficiency, 1, "");
  line("bandwidth efficiency", chip.memory_efficiency, 1, "");
  line("host time a kernel", chip.launch_s, 1e-6, "us");
  line("link inside a server", cluster.intra.bandwidth, 1e9, "GB/s");
  line("its efficiency", cluster.intra.efficiency, 1, "");
  line("link between servers", cluster.inter.bandwidth, 1e9, "GB/s");
  line("its efficiency", cluster.inter.efficiency, 1, "");
  line("interval of a step time", cluster.uncertainty, 1, "+-");
  return text;
}

std::string estimate_text(const TrainJob& job, const Cluster& cluster, const Estimate& estimate) {
  const StepTime& t = estimate.time;
  std::string text = fmt::format(
      "{}: {} on {} x {}, {} stack, {}\n  global batch {} x {} tokens, micro batch {}, {} "
      "micro-batches a step\n\nMemory of one rank of each pipeline stage, GiB ({:.1f} usable):\n",
      job.model_name, describe_layout(job), job.layout.world_size(), cluster.chip.name,
      stack_name(job.stack), dtype_name(job.dtype), job.batch.global_batch_size, job.batch.seq_len,
      job.batch.micro_batch_size, job.batch.num_microbatches(job.layout), estimate.capacity / kGiB);
  text += stage_table(estimate);
  text += fmt::format("\nStep time {} ({} .. {}), {:.0f} tokens/s a device, MFU {:.1f} %\n",
                      format_seconds(t.step.best), format_seconds(t.step.low),
                      format_seconds(t.step.high), estimate.tokens_per_second_per_device,
                      100 * estimate.mfu);
  for (const Row& row : kTimeRows) {
    const double part = t.*row.part;
    if (part > 0) {
      text += fmt::format("  {:30} {:>10}  {:5.1f} %\n", row.name, format_seconds(part),
                          percent(part, t.step.best));
    }
  }
  if (t.recompute > 0) {
    text += fmt::format("  (recomputation is {} of the compute)\n", format_seconds(t.recompute));
  }
  if (t.turns > 0) {
    text += fmt::format("  (waiting for cores that other ranks use is {} of the compute)\n",
                        format_seconds(t.turns));
  }
  const AxisTraffic& a = estimate.traffic;
  text += fmt::format(
      "Sent by one rank of the first stage in a step: tp {}, cp {}, ep {}, dp {}, "
      "pp {}\n",
      bytes_text(a.tp), bytes_text(a.cp), bytes_text(a.ep), bytes_text(a.dp), bytes_text(a.pp));
  return text;
}

// Why no layout keeps the rules: mostly a batch that is too small or devices that divide badly.
std::string no_layout_text(const SearchRequest& request) {
  const ModelConfig& m = request.job.model;
  return fmt::format(
      "No layout keeps the rules, so memory was not asked for. Every replica needs a row: dp x "
      "micro batch must divide the global batch of {}, where dp = {} devices / (tp x pp x cp), tp "
      "divides {} heads and {} MLP columns, pp is at most {} layers, and cp cuts {} tokens into "
      "pieces of at least 2048.\nTry a larger global batch, other devices, or fewer --fix.\n",
      request.job.batch.global_batch_size, request.devices, m.num_heads, m.ffn_hidden_size,
      m.num_layers, request.job.batch.seq_len);
}

// Rows of as many cells each, every column as wide as its widest cell; the second is aligned left.
std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += i == 1 ? fmt::format("  {:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string candidates_text(const std::vector<Candidate>& candidates) {
  std::vector<std::vector<std::string>> rows = {{"#", "layout", "step", "interval", "tok/s/dev",
                                                 "MFU %", "peak GiB", "margin", "bubble", "exposed",
                                                 ""}};
  for (const Candidate& candidate : candidates) {
    const Estimate& e = candidate.estimate;
    const StepTime& t = e.time;
    const double peak = e.worst_stage().peak.best;
    rows.push_back({fmt::format("{}", rows.size()), describe_layout(candidate.job),
                    format_seconds(t.step.best),
                    format_seconds(t.step.low) + " .. " + format_seconds(t.step.high),
                    fmt::format("{:.0f}", e.tokens_per_second_per_device),
                    fmt::format("{:.1f}", 100 * e.mfu), fmt::format("{:.2f}", peak / kGiB),
                    fmt::format("{:.1f}", (e.capacity - peak) / kGiB),
                    fmt::format("{:.1f} %", percent(t.bubble, t.step.best)),
                    fmt::format("{:.1f} %", percent(exposed(t), t.step.best)),
                    e.fit == Fit::kTight ? "tight" : ""});
  }
  return table_text(rows);
}

std::string search_text(const SearchRequest& request, const SearchResult& result) {
  const SearchCounts& c = result.counts;
  std::string text = fmt::format(
      "{} on {} x {}: {} layouts in {:.2f} s: {} break a rule, {} do not fit, {} cannot be among "
      "the "
      "best, {} simulated\n\n",
      request.job.model_name, request.devices, request.cluster.chip.name, c.enumerated, c.seconds,
      c.invalid, c.pruned_memory, c.pruned_bound, c.simulated);
  if (result.best.empty()) {
    if (c.enumerated == c.invalid) {
      return text + no_layout_text(request);
    }
    text += "Nothing fits.\n";
    if (result.nearest) {
      const Estimate& e = result.nearest->estimate;
      text += fmt::format(
          "The nearest is {}: stage {} needs {} and has {}.\nTry more devices, a "
          "shorter sequence, or a smaller model.\n",
          describe_layout(result.nearest->job), e.worst_stage().stage,
          bytes_text(e.worst_stage().peak.best), bytes_text(e.capacity));
    }
    return text;
  }
  text += candidates_text(result.best);
  text += indistinguishable(result) + "\n";
  for (const std::string& sentence : explain_choice(result.best.front(), result.neighbours)) {
    text += sentence + "\n";
  }
  return text;
}

std::string limits_text(const SearchRequest& request, const SearchResult& result) {
  if (result.best.empty()) {
    return "";
  }
  const Limits limits = memory_limits(result.best.front().job, request.cluster.chip);
  return fmt::format(
      "The best layout holds sequences of up to {} tokens, or micro-batches of up to "
      "{} sequences.\n",
      limits.longest_seq, limits.largest_micro_batch);
}

std::string fit_text(const FitResult& fit) {
  std::string text = fmt::format(
      "Fitted to these runs (MAPE {:.1f} %); put them into a cluster file:\n", 100 * fit.mape);
  for (const FittedFigure& figure : fit.figures) {
    text +=
        fmt::format("  {:24} {:10.4g}  (was {:.4g})\n", figure.name, figure.after, figure.before);
  }
  return text;
}

std::string hold_out_text(const HoldOut& hold_out) {
  if (hold_out.models_in_table < 2) {
    return "Hold-out: the table has one model; nothing is left to fit to.\n";
  }
  std::string text = fmt::format(
      "Hold-out by model ({} models; each predicted with constants fitted to the others): MAPE "
      "{:.1f} "
      "%, p90 {:.1f} %, worst {:.1f} %\n",
      hold_out.models_in_table, 100 * hold_out.all.mape, 100 * hold_out.all.p90,
      100 * hold_out.all.worst);
  for (const ModelMetrics& model : hold_out.models) {
    text += fmt::format("  {:44} {:4} runs  MAPE {:5.1f} %  bias {:+5.1f} %\n", model.model,
                        model.metrics.runs, 100 * model.metrics.mape, 100 * model.metrics.bias);
  }
  return text;
}

std::string diff_text(const Candidate& a, const Candidate& b) {
  std::string text =
      fmt::format("{:32} {:>28} {:>28}\n", "", describe_layout(a.job), describe_layout(b.job));
  auto line = [&text](const char* name, const std::string& x, const std::string& y) {
    text += fmt::format("{:32} {:>28} {:>28}\n", name, x, y);
  };
  const StepTime& s = a.estimate.time;
  const StepTime& t = b.estimate.time;
  line("step", format_seconds(s.step.best), format_seconds(t.step.best));
  for (const Row& row : kTimeRows) {
    if (s.*row.part > 0 || t.*row.part > 0) {
      line(row.name, format_seconds(s.*row.part), format_seconds(t.*row.part));
    }
  }
  line("MFU", fmt::format("{:.1f} %", 100 * a.estimate.mfu),
       fmt::format("{:.1f} %", 100 * b.estimate.mfu));
  const StageMemoryPlan& x = a.estimate.worst_stage();
  const StageMemoryPlan& y = b.estimate.worst_stage();
  line("fullest stage", std::to_string(x.stage), std::to_string(y.stage));
  line("  states", bytes_text(x.bytes.states()), bytes_text(y.bytes.states()));
  line("  activations", bytes_text(x.bytes.activations), bytes_text(y.bytes.activations));
  line("  peak", bytes_text(x.peak.best), bytes_text(y.peak.best));
  line("fit", fit_name(a.estimate.fit), fit_name(b.estimate.fit));
  const bool second = t.step.best < s.step.best;
  const double ratio = second ? s.step.best / t.step.best : t.step.best / s.step.best;
  const bool overlap = s.step.low <= t.step.high && t.step.low <= s.step.high;
  text += fmt::format("\nThe {} is {:.1f} % faster{}.\n", second ? "second" : "first",
                      100 * (ratio - 1),
                      overlap ? ", within the interval of the prediction: measure both" : "");
  return text;
}

std::string score_text(const ScoreTable& table, const ScoreReport& report) {
  std::string text = fmt::format("{}: {} runs\n", table.origin, report.runs.size());
  if (!table.assumptions.empty()) {
    text += "Assumed for every row (the table does not say):";
    for (const std::string& assumption : table.assumptions) {
      text += " " + assumption;
    }
    text += "\n";
  }
  auto line = [&text](const char* name, const Metrics& m, const Ranking& r) {
    text +=
        fmt::format("  {:44} {:6.1f} % {:6.1f} % {:6.1f} % {:+6.1f} %   {:5.2f} {:7.1f} %\n", name,
                    100 * m.mape, 100 * m.p90, 100 * m.worst, 100 * m.bias, r.tau, 100 * r.regret);
  };
  text += fmt::format("  {:44} {:>8} {:>8} {:>8} {:>8}   {:>5} {:>9}\n", "", "MAPE", "p90", "worst",
                      "bias", "tau", "regret");
  line("plait", report.ours, report.ranking);
  line(fmt::format("one constant, {:.0f} TFLOP/s a chip (fitted)", report.constant_tflops).c_str(),
       report.constant, report.constant_ranking);
  line("closed form without overlap (scale fitted)", report.closed_form,
       report.closed_form_ranking);
  text += fmt::format(
      "{:.0f} % of the runs are inside the predicted interval; tau and regret over "
      "{} questions (same model, devices, batch)\n",
      100 * report.ours.inside, report.ranking.questions);
  for (const ModelMetrics& model : report.models) {
    text += fmt::format("  {:44} {:4} runs  MAPE {:5.1f} %  bias {:+5.1f} %\n", model.model,
                        model.metrics.runs, 100 * model.metrics.mape, 100 * model.metrics.bias);
  }
  for (const std::string& row : table.impossible) {
    text += "impossible, not scored: " + row + "\n";
  }
  for (const std::string& row : report.impossible) {
    text += "impossible, not scored: " + row + "\n";
  }
  for (const std::string& row : table.skipped) {
    text += "skipped: " + row + "\n";
  }
  return text;
}

}  // namespace plait
