#include "plan/explain.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/csv.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/report.h"

namespace plait {
namespace {

constexpr const char* kBlanks = " \t\r";
// A term may differ by this share of the whole step before it is called different: terms are less
// certain than their sum.
constexpr double kTermShare = 0.05;
constexpr double kMemoryShare = 0.08;

double parse_number(const std::string& text, const std::string& origin, int line) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value) || value < 0) {
    throw_error(ErrorCode::kCorruptData, "{}:{}: '{}' is not a number of at least 0", origin, line,
                text);
  }
  return value;
}

// One row of a step trace, in seconds.
struct TraceStep {
  double stage = 0, computing = 0, exposed = 0, free = 0, receive = 0;
};

Measured read_trace(const CsvTable& table) {
  constexpr const char* kExposed = "Communication(Not Overlapped)";
  constexpr const char* kNoReceive = "Communication(Not Overlapped and Exclude Receive)";
  auto cell = [&](const CsvRow& row, const char* name) {
    const int column = table.column(name);
    if (column < 0) {
      throw_error(ErrorCode::kCorruptData, "{}:1: column '{}' is missing", table.origin, name);
    }
    const std::string text = trimmed(row.fields[static_cast<size_t>(column)], kBlanks);
    return text.empty() ? 0 : parse_number(text, table.origin, row.line) * 1e-6;
  };
  const int type = table.column("Type");
  std::vector<TraceStep> steps;
  for (const CsvRow& row : table.rows) {
    if (type >= 0 && row.fields[static_cast<size_t>(type)] != "rank") {
      continue;
    }
    TraceStep step;
    step.computing = cell(row, "Computing");
    step.exposed = cell(row, kExposed);
    step.free = cell(row, "Free");
    step.stage = table.column("Stage") >= 0 ? cell(row, "Stage") : 0;
    if (step.stage <= 0) {
      step.stage = step.computing + step.exposed + step.free;
    }
    if (table.column(kNoReceive) >= 0) {
      step.receive = std::max(0.0, step.exposed - cell(row, kNoReceive));
    }
    steps.push_back(step);
  }
  if (steps.empty()) {
    throw_error(ErrorCode::kCorruptData, "{}: no step in it", table.origin);
  }
  std::sort(steps.begin(), steps.end(),
            [](const TraceStep& a, const TraceStep& b) { return a.stage < b.stage; });
  const TraceStep& median = steps[steps.size() / 2];
  Measured measured;
  measured.origin = table.origin;
  measured.step = median.stage;
  measured.compute = median.computing;
  measured.communication = median.exposed;
  measured.free = median.free;
  measured.receive_wait = median.receive;
  return measured;
}

Measured read_settings(const std::string& text, const std::string& path) {
  Measured measured;
  measured.origin = path;
  const std::map<std::string, std::optional<double> Measured::*> seconds = {
      {"step_s", &Measured::step},
      {"compute_s", &Measured::compute},
      {"communication_s", &Measured::communication},
      {"free_s", &Measured::free}};
  int line = 0;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string content = trimmed(text.substr(at, end - at), kBlanks);
    at = end + 1;
    ++line;
    if (content.empty() || content[0] == '#') {
      continue;
    }
    const size_t equals = content.find('=');
    const std::string key = trimmed(content.substr(0, equals), kBlanks);
    const std::string value =
        equals == std::string::npos ? "" : trimmed(content.substr(equals + 1), kBlanks);
    const auto found = seconds.find(key);
    if (found != seconds.end()) {
      measured.*(found->second) = parse_number(value, path, line);
    } else if (key == "memory_gib") {
      for (size_t begin = 0; begin <= value.size();) {
        const size_t comma = std::min(value.find(',', begin), value.size());
        measured.memory.push_back(
            parse_number(trimmed(value.substr(begin, comma - begin), kBlanks), path, line) * kGiB);
        begin = comma + 1;
      }
    } else {
      throw_error(
          ErrorCode::kCorruptData,
          "{}:{}: '{}' is not known; allowed are step_s, compute_s, communication_s, free_s "
          "and memory_gib",
          path, line, key);
    }
  }
  return measured;
}

class Comparer {
 public:
  explicit Comparer(const Estimate& estimate) : step_(estimate.time.step.best) {}

  void seconds(const char* term, double predicted, const std::optional<double>& measured,
               const char* too_much, const char* too_little) {
    if (!measured) {
      return;
    }
    const double deviation = *measured - predicted;
    differences.push_back({term, predicted, *measured, true,
                           std::abs(deviation) > kTermShare * step_,
                           deviation > 0 ? too_much : too_little});
  }

  std::vector<Difference> differences;

 private:
  double step_;
};

double weight(const Difference& d) {
  return d.predicted > 0 ? std::abs(d.measured - d.predicted) / (d.seconds ? 1 : d.predicted) : 0;
}

void compare_memory(const Measured& measured, const TrainJob& job, const Estimate& estimate,
                    std::vector<Difference>& differences) {
  const auto count = static_cast<int>(measured.memory.size());
  const int world = job.layout.world_size();
  if (count == 0) {
    return;
  }
  if (count != job.layout.pp && count != world) {
    throw_error(ErrorCode::kInvalidArgument,
                "memory_gib has {} numbers; give one a stage ({}) or one a rank ({})", count,
                job.layout.pp, world);
  }
  const int per_stage = count / job.layout.pp;
  for (int stage = 0; stage < job.layout.pp; ++stage) {
    double most = 0;
    for (int r = 0; r < per_stage; ++r) {
      most = std::max(most,
                      measured.memory[static_cast<size_t>(stage) * static_cast<size_t>(per_stage) +
                                      static_cast<size_t>(r)]);
    }
    const StageMemoryPlan& plan = estimate.stages[static_cast<size_t>(stage)];
    const double predicted = plan.bytes.framework();
    const bool differs = std::abs(most / predicted - 1) > kMemoryShare;
    const bool first_step = std::abs(most / plan.first_step_peak - 1) < kMemoryShare;
    differences.push_back(
        {fmt::format("memory of stage {}", stage), predicted, most, false, differs,
         first_step && differs
             ? "the counter was read after the first step, whose backward ran without the moments"
         : most > predicted
             ? "recomputation off, a larger micro batch or vocabulary, or buffers that "
               "the stack keeps"
             : "recomputation on, shorter sequences than seq, or swapped tensors"});
  }
}

}  // namespace

Measured read_measured(const std::string& path) {
  const std::string text = read_file(path);
  return text.find("Computing") != std::string::npos ? read_trace(parse_csv(text, path))
                                                     : read_settings(text, path);
}

Explanation explain_measured(const Measured& measured, const TrainJob& job,
                             const Estimate& estimate) {
  const StepTime& t = estimate.time;
  Comparer compare(estimate);
  const double exposed =
      t.tp_exposed + t.cp_exposed + t.ep_exposed + t.dp_exposed + t.pp_exposed + t.bubble;
  compare.seconds("compute", t.compute + t.optimizer, measured.compute,
                  "slow kernels: unfused operators, small or unaligned products, a throttled clock",
                  "sequences shorter than seq, or fewer layers than the model has");
  compare.seconds(
      "exposed communication and bubble", exposed, measured.communication,
      "a slow link or rank (the others wait for it), overlap switched off, or tp across "
      "servers",
      "more overlap than the plan was told of");
  compare.seconds("bubble", t.bubble, measured.receive_wait,
                  "uneven stages: another stage is slower, or micro-batches differ in length",
                  "stages more even than predicted");
  compare.seconds("idle", t.host, measured.free,
                  "the host: data loading, Python between launches, synchronisation, logging",
                  "launches hidden by a task queue or a captured graph");
  Explanation explanation;
  explanation.differences = std::move(compare.differences);
  compare_memory(measured, job, estimate, explanation.differences);
  std::stable_sort(explanation.differences.begin(), explanation.differences.end(),
                   [](const Difference& a, const Difference& b) {
                     return a.seconds != b.seconds ? a.seconds : weight(a) > weight(b);
                   });
  if (measured.step) {
    const double ratio = *measured.step / t.step.best - 1;
    const bool inside = t.step.low <= *measured.step && *measured.step <= t.step.high;
    explanation.differences.insert(
        explanation.differences.begin(),
        {"step", t.step.best, *measured.step, true, !inside,
         inside ? "inside the interval of the prediction" : "outside the interval"});
    explanation.verdict =
        fmt::format("The step took {} instead of {} ({:+.0f} %)", format_seconds(*measured.step),
                    format_seconds(t.step.best), 100 * ratio);
    const auto guilty =
        std::find_if(explanation.differences.begin() + 1, explanation.differences.end(),
                     [](const Difference& d) { return d.seconds && d.differs; });
    explanation.verdict +=
        inside ? ", inside the interval of the prediction."
        : guilty == explanation.differences.end()
            ? ", and no measured term says why: give a step trace."
            : fmt::format("; the largest difference is {}: {}.", guilty->term, guilty->meaning);
  }
  return explanation;
}

std::string explanation_text(const Explanation& explanation) {
  std::string text = fmt::format("{:34} {:>12} {:>12} {:>9}\n", "", "predicted", "measured", "");
  for (const Difference& d : explanation.differences) {
    const double ratio = d.predicted > 0 ? d.measured / d.predicted - 1 : 0;
    text += fmt::format("{:34} {:>12} {:>12} {:+8.0f}%{}\n", d.term,
                        d.seconds ? format_seconds(d.predicted) : bytes_text(d.predicted),
                        d.seconds ? format_seconds(d.measured) : bytes_text(d.measured),
                        100 * ratio, d.differs ? "  <- " + d.meaning : "");
  }
  return text + (explanation.verdict.empty() ? "" : explanation.verdict + "\n");
}

}  // namespace plait
