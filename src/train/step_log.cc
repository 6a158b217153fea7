#include "train/step_log.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json_full.h"
#include "base/log.h"
#include "base/statistics.h"

namespace plait {
namespace {

void find_straggler(const std::vector<RankStep>& ranks, const Layout& layout, StepRecord& record) {
  constexpr double kStandsOut = 1.25;
  const Mesh mesh = layout.mesh();
  for (int stage = 0; stage < layout.pp; ++stage) {
    std::vector<double> times;
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      if (mesh.coordinate(rank, Axis::kPp) == stage) {
        times.push_back(ranks[static_cast<size_t>(rank)].compute_s());
      }
    }
    if (times.size() < 3) {
      continue;
    }
    const double middle = median(times);
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      const double factor = ranks[static_cast<size_t>(rank)].compute_s() / middle;
      if (mesh.coordinate(rank, Axis::kPp) == stage && factor >= kStandsOut &&
          factor > record.slowest_factor) {
        record.slowest_rank = rank;
        record.slowest_factor = factor;
      }
    }
  }
}

Json step_split(double compute_s, double exposed_comm_s, double bubble_s, double control_s,
                double optimizer_s) {
  return {{"compute_s", compute_s},
          {"exposed_comm_s", exposed_comm_s},
          {"bubble_s", bubble_s},
          {"control_s", control_s},
          {"optimizer_s", optimizer_s}};
}

}  // namespace

StepRecord summarise_step(const std::vector<RankStep>& ranks, const Layout& layout) {
  StepRecord record;
  const auto count = static_cast<double>(ranks.size());
  for (const RankStep& rank : ranks) {
    record.time_s = std::max(record.time_s, rank.total_s);
    record.compute_s += rank.compute_s() / count;
    record.exposed_comm_s += rank.exposed_comm_s() / count;
    record.bubble_s += rank.pipeline_wait_s / count;
    record.control_s += rank.control_wait_s / count;
    record.optimizer_s += rank.optimizer_s / count;
  }
  find_straggler(ranks, layout, record);
  return record;
}

std::string metrics_line(const StepRecord& record) {
  Json json = {{"step", record.step},
               {"loss", record.loss},
               {"grad_norm", record.grad_norm},
               {"lr", record.lr},
               {"tokens", record.tokens},
               {"time_s", record.time_s},
               {"tokens_per_s", record.tokens_per_s()},
               {"mfu", record.mfu}};
  json.update(step_split(record.compute_s, record.exposed_comm_s, record.bubble_s, record.control_s,
                         record.optimizer_s));
  if (record.slowest_rank >= 0) {
    json["slowest_rank"] = record.slowest_rank;
    json["slowest_factor"] = record.slowest_factor;
  }
  if (record.loss_scale > 0) {
    json["loss_scale"] = record.loss_scale;
    json["skipped"] = record.overflow;
  }
  if (record.val_loss >= 0) {
    json["val_loss"] = record.val_loss;
    json["val_perplexity"] = std::exp(record.val_loss);
  }
  return dump_json(json) + "\n";
}

std::string metrics_until(const std::string& text, int64_t last_step) {
  constexpr std::string_view kStart = "{\"step\":";  // as metrics_line() writes it
  std::string kept;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    int64_t step = 0;
    if (line.starts_with(kStart) && line.ends_with('}')) {
      std::from_chars(line.data() + kStart.size(), line.data() + line.size(), step);
    }
    if (step >= 1 && step <= last_step) {
      kept.append(line).push_back('\n');
    }
  }
  return kept;
}

ProgressBar::ProgressBar(int64_t steps, int64_t first_step)
    : steps_(steps),
      first_step_(first_step),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_s_(now_s()) {}

void ProgressBar::show(const StepRecord& record) {
  const double now = now_s();
  const bool last = record.step == steps_;
  if (!last && now - last_shown_s_ < (terminal_ ? 0.1 : 5.0)) {
    return;
  }
  last_shown_s_ = now;
  const auto done = static_cast<double>(record.step - first_step_);
  const auto left_s =
      static_cast<int64_t>((now - start_s_) / done * static_cast<double>(steps_ - record.step));
  std::string text =
      fmt::format("step {}/{}  loss {:.4f}  {:.0f} tok/s  {}:{:02} left", record.step, steps_,
                  record.loss, record.tokens_per_s(), left_s / 60, left_s % 60);
  if (record.slowest_rank >= 0) {
    text += fmt::format("  rank {} is {:.1f}x slower", record.slowest_rank, record.slowest_factor);
  }
  if (!terminal_) {
    log_info(-1, "{}", text);
    return;
  }
  constexpr int64_t kWidth = 24;
  const int64_t filled = kWidth * record.step / std::max<int64_t>(steps_, 1);
  std::string bar(static_cast<size_t>(filled), '#');
  bar.resize(kWidth, '.');
  std::fprintf(stderr, "\r\033[K[%s] %s", bar.c_str(), text.c_str());
  std::fflush(stderr);
}

void ProgressBar::finish() {
  if (terminal_) {
    std::fputc('\n', stderr);
  }
}

std::string format_summary(const TrainSummary& s) {
  const double step_s = s.compute_s + s.exposed_comm_s + s.bubble_s + s.control_s + s.optimizer_s;
  const auto percent = [&](double seconds) { return step_s > 0 ? 100 * seconds / step_s : 0.0; };
  std::string text = fmt::format("layout      {} on {} ranks, {} threads each\n", s.layout,
                                 s.world_size, s.threads_per_rank);
  if (s.last_step == s.first_step) {
    return text + fmt::format("steps       none: step {} was done before\n", s.last_step);
  }
  text += fmt::format(
      "steps       {} to {}{}\n"
      "loss        {:.4f} -> {:.4f}",
      s.first_step + 1, s.last_step, s.stopped ? " (stopped by a signal)" : "", s.first_loss,
      s.last_loss);
  if (s.val_loss >= 0) {
    text +=
        fmt::format(", validation {:.4f} (perplexity {:.2f})", s.val_loss, std::exp(s.val_loss));
  }
  text += fmt::format(
      "\nspeed       {:.0f} tokens/s, MFU {:.1f} % of the measured {:.1f} GFLOP/s\n"
      "step time   compute {:.1f} %, exposed communication {:.1f} %, bubble {:.1f} %, "
      "waiting for others {:.1f} %, optimizer {:.1f} %\n"
      "memory      rank  ",
      s.tokens_per_s, 100 * s.mfu, s.gemm_peak_flops * 1e-9, percent(s.compute_s),
      percent(s.exposed_comm_s), percent(s.bubble_s), percent(s.control_s), percent(s.optimizer_s));
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    text += fmt::format("{:>12}", memory_category_name(static_cast<MemoryCategory>(c)));
  }
  text += "        peak\n";
  for (size_t rank = 0; rank < s.memory.size() && rank < 16; ++rank) {
    text += fmt::format("            {:4}  ", rank);
    for (const int64_t bytes : s.memory[rank].peak_bytes) {
      text += fmt::format("{:>12}", format_bytes(bytes));
    }
    text += fmt::format("{:>12}\n", format_bytes(s.memory[rank].total_peak_bytes));
  }
  const std::pair<const char*, const std::string*> files[] = {
      {"checkpoint", &s.checkpoint}, {"metrics", &s.metrics}, {"trace", &s.trace}};
  for (const auto& [name, path] : files) {
    if (!path->empty()) {
      text += fmt::format("{:<12}{}\n", name, *path);
    }
  }
  return text;
}

std::string summary_json(const TrainSummary& s) {
  Json memory = Json::array();
  for (const MemoryLedger::Totals& totals : s.memory) {
    Json rank;
    for (int c = 0; c < kNumMemoryCategories; ++c) {
      rank[memory_category_name(static_cast<MemoryCategory>(c))] =
          totals.peak_bytes[static_cast<size_t>(c)];
    }
    rank["total_peak"] = totals.total_peak_bytes;
    memory.push_back(std::move(rank));
  }
  Json json = {{"layout", s.layout},
               {"ranks", s.world_size},
               {"threads_per_rank", s.threads_per_rank},
               {"first_step", s.first_step + 1},
               {"last_step", s.last_step},
               {"stopped", s.stopped},
               {"first_loss", s.first_loss},
               {"last_loss", s.last_loss},
               {"tokens_per_s", s.tokens_per_s},
               {"mfu", s.mfu},
               {"gemm_peak_flops", s.gemm_peak_flops},
               {"mean_step",
                step_split(s.compute_s, s.exposed_comm_s, s.bubble_s, s.control_s, s.optimizer_s)},
               {"memory_peak_bytes", std::move(memory)},
               {"checkpoint", s.checkpoint},
               {"metrics", s.metrics},
               {"trace", s.trace}};
  if (s.val_loss >= 0) {
    json["val_loss"] = s.val_loss;
  }
  return dump_json(json, 2);
}

std::string encode_spans(const std::vector<TraceSpan>& spans) {
  Json json = Json::array();
  for (const TraceSpan& span : spans) {
    json.push_back({span.name, static_cast<int>(span.lane), span.begin_s, span.end_s});
  }
  return dump_json(json);
}

std::vector<TraceSpan> decode_spans(const std::string& bytes) {
  std::vector<TraceSpan> spans;
  for (const Json& entry : parse_json(bytes, "trace of a rank")) {
    spans.push_back({entry.at(0).get<std::string>(), static_cast<TraceLane>(entry.at(1).get<int>()),
                     entry.at(2).get<double>(), entry.at(3).get<double>()});
  }
  return spans;
}

std::string chrome_trace(const std::vector<std::vector<TraceSpan>>& spans_by_rank) {
  double first_s = std::numeric_limits<double>::infinity();
  for (const std::vector<TraceSpan>& spans : spans_by_rank) {
    for (const TraceSpan& span : spans) {
      first_s = std::min(first_s, span.begin_s);
    }
  }
  Json events = Json::array();
  for (size_t rank = 0; rank < spans_by_rank.size(); ++rank) {
    events.push_back({{"ph", "M"},
                      {"name", "process_name"},
                      {"pid", rank},
                      {"args", {{"name", fmt::format("rank {}", rank)}}}});
    for (const TraceLane lane : {TraceLane::kCompute, TraceLane::kTransfer, TraceLane::kWait}) {
      events.push_back({{"ph", "M"},
                        {"name", "thread_name"},
                        {"pid", rank},
                        {"tid", static_cast<int>(lane)},
                        {"args", {{"name", trace_lane_name(lane)}}}});
    }
    for (const TraceSpan& span : spans_by_rank[rank]) {
      events.push_back({{"ph", "X"},
                        {"name", span.name},
                        {"cat", trace_lane_name(span.lane)},
                        {"pid", rank},
                        {"tid", static_cast<int>(span.lane)},
                        {"ts", (span.begin_s - first_s) * 1e6},
                        {"dur", (span.end_s - span.begin_s) * 1e6}});
    }
  }
  return dump_json({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}});
}

}  // namespace plait
