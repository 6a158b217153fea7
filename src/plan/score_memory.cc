#include "plan/score_memory.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/units.h"
#include "plan/readers/megatron.h"

namespace plait {
namespace {

constexpr double kStatesLimit = 0.03;
constexpr double kPeakLimit = 0.08;

struct RankMemory {
  int rank = 0;
  double allocated = 0;
  double peak = 0;
};

int need_column(const CsvTable& table, const char* name) {
  const int column = table.column(name);
  if (column < 0) {
    throw_error(ErrorCode::kCorruptData, "{}:1: column '{}' is missing", table.origin, name);
  }
  return column;
}

double parse(const CsvTable& table, const CsvRow& row, int column) {
  const std::string& cell = row.fields[static_cast<size_t>(column)];
  double value = 0;
  const char* end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= 0)) {
    throw_error(ErrorCode::kCorruptData, "{}:{}: {} is '{}', not a number of at least 0",
                table.origin, row.line, table.header[static_cast<size_t>(column)], cell);
  }
  return value;
}

std::map<std::string, std::vector<RankMemory>> read_memory(const CsvTable& table) {
  const int tag = need_column(table, "tag");
  const int config = need_column(table, "config");
  const int rank = need_column(table, "rank");
  const int allocated = need_column(table, "allocated_MiB");
  const int peak = need_column(table, "max_allocated_MiB");
  std::map<std::string, std::vector<RankMemory>> by_run;
  for (const CsvRow& row : table.rows) {
    const std::string key =
        row.fields[static_cast<size_t>(tag)] + "|" + row.fields[static_cast<size_t>(config)];
    by_run[key].push_back({static_cast<int>(parse(table, row, rank)),
                           parse(table, row, allocated) * kMiB, parse(table, row, peak) * kMiB});
  }
  return by_run;
}

std::vector<std::string> split_words(const std::string& text, const std::string& name) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  // The tokenizer, where the vocabulary is not a flag, is known by the configuration's name.
  if (text.find("--tokenizer-name-or-path") == std::string::npos) {
    words = {"--tokenizer-name-or-path", name};
  }
  for (std::string word; stream >> word;) {
    // Shell arrays that the table's author pasted along.
    if (word.find_first_of("()") == std::string::npos) {
      words.push_back(word);
    }
  }
  return words;
}

// Why a configuration is no dense full training, or empty.
std::string other_kind(const std::string& name, const std::string& flags, const TrainJob& job) {
  if (job.lora.rank > 0 || flags.find("--lora") != std::string::npos) {
    return "adapters";
  }
  if (job.model.moe.num_experts > 0) {
    return "mixture of experts";
  }
  if (job.model.mla.kv_lora_rank > 0) {
    return "latent attention";
  }
  for (const char* word : {"reward", "_orm", "_prm", "dpo", "ppo"}) {
    if (name.find(word) != std::string::npos) {
      return "a head or a second model that its flags do not show";
    }
  }
  for (const char* flag : {"--tp-2d", "--noop-layers", "--use-torch-fsdp2"}) {
    if (flags.find(flag) != std::string::npos) {
      return std::string(flag) + " is not modelled";
    }
  }
  return "";
}

std::string unknown_peak(const std::string& flags) {
  // Instructions are padded to the longest of a batch, not to seq.
  const bool instructions = flags.find("--is-instruction-dataset") != std::string::npos &&
                            flags.find("--pad-to") == std::string::npos;
  if (instructions || flags.find("--variable-seq-lengths") != std::string::npos) {
    return "sequences shorter than seq, by how much is not known";
  }
  return "";
}

ScoredMemory compare(const TrainJob& job, const std::vector<RankMemory>& ranks, const Chip& chip) {
  const std::vector<StageMemoryPlan> stages = estimate_job_memory(job, chip);
  ScoredMemory scored;
  scored.ranks = static_cast<int>(ranks.size());
  const int per_stage = job.layout.tp * job.layout.cp * job.layout.dp;
  double worst_peak = -1;
  for (const RankMemory& rank : ranks) {
    const int stage = std::min(rank.rank / per_stage, job.layout.pp - 1);
    const StageMemoryPlan& plan = stages[static_cast<size_t>(stage)];
    const double states = plan.bytes.states() / rank.allocated - 1;
    const double peak = plan.first_step_peak / rank.peak - 1;
    if (std::abs(states) > std::abs(scored.states_error)) {
      scored.states_error = states;
    }
    if (std::abs(peak) > worst_peak) {
      worst_peak = std::abs(peak);
      scored.peak_error = peak;
      scored.states_bytes = plan.bytes.states();
      scored.measured_states = rank.allocated;
      scored.peak_bytes = plan.first_step_peak;
      scored.measured_peak = rank.peak;
    }
    scored.fit = std::max(scored.fit, plan.fit);
  }
  return scored;
}

void count(ScoredMemory scored, MemoryReport& report) {
  if (scored.states_note.empty()) {
    ++report.states_scored;
    report.states_close += std::abs(scored.states_error) <= kStatesLimit ? 1 : 0;
  }
  if (scored.states_note.empty() && scored.peak_note.empty()) {
    ++report.peaks_scored;
    report.peaks_close += std::abs(scored.peak_error) <= kPeakLimit ? 1 : 0;
  }
  (scored.fit == Fit::kFits    ? report.fits
   : scored.fit == Fit::kTight ? report.tight
                               : report.does_not_fit) += 1;
  report.configurations.push_back(std::move(scored));
}

}  // namespace

MemoryReport score_memory(const CsvTable& runs, const CsvTable& memory, const Cluster& cluster) {
  const auto by_run = read_memory(memory);
  const int tag = need_column(runs, "tag");
  const int config = need_column(runs, "config");
  const int devices = need_column(runs, "devices");
  const int flags = need_column(runs, "all_flags");
  MemoryReport report;
  std::set<std::string> seen;
  for (const CsvRow& row : runs.rows) {
    const std::string& name = row.fields[static_cast<size_t>(config)];
    const auto found = by_run.find(row.fields[static_cast<size_t>(tag)] + "|" + name);
    if (found == by_run.end()) {
      continue;
    }
    std::string same = name;
    for (const RankMemory& rank : found->second) {
      same += fmt::format(" {:.0f} {:.0f}", rank.allocated / kMiB, rank.peak / kMiB);
    }
    if (!seen.insert(same).second) {
      continue;
    }
    const std::string& words = row.fields[static_cast<size_t>(flags)];
    try {
      ReadOptions options;
      options.devices = static_cast<int>(parse(runs, row, devices));
      ReadJob read = read_megatron(plain_launch(split_words(words, name)), runs.origin, options);
      read.job.stack = Stack::kMindSpeed;
      read.job.layout.dp = std::max(
          1, options.devices / (read.job.layout.tp * read.job.layout.pp * read.job.layout.cp));
      ScoredMemory scored;
      const std::string kind = other_kind(name, words, read.job);
      if (!find_job_problems(read.job, options.devices).empty()) {
        report.skipped.push_back(name + ": the flags break a rule");
        continue;
      }
      scored = compare(read.job, found->second, cluster.chip);
      scored.name = name + " (" + row.fields[static_cast<size_t>(tag)] + ")";
      scored.states_note = kind;
      scored.peak_note = unknown_peak(words);
      count(std::move(scored), report);
    } catch (const Error& error) {
      report.skipped.push_back(fmt::format("{}: {}", name, error.what()));
    }
  }
  return report;
}

std::string memory_report_text(const MemoryReport& report) {
  std::string text = fmt::format(
      "Memory of {} configurations (worst rank of each; what Megatron prints after the first "
      "step)\n",
      report.configurations.size());
  for (const ScoredMemory& c : report.configurations) {
    text += fmt::format("  {:54} states {:+6.1f} %  peak {:+6.1f} %  {:6.0f} of {:6.0f} MiB{}\n",
                        c.name, 100 * c.states_error, 100 * c.peak_error, c.peak_bytes / kMiB,
                        c.measured_peak / kMiB,
                        !c.states_note.empty() ? "  not scored: " + c.states_note
                        : !c.peak_note.empty() ? "  peak not scored: " + c.peak_note
                                               : "");
  }
  auto share = [](int close, int all) { return all > 0 ? 100.0 * close / all : 0.0; };
  text += fmt::format(
      "States within 3 %: {} of {} ({:.0f} %); peak within 8 %: {} of {} ({:.0f} %)\n",
      report.states_close, report.states_scored, share(report.states_close, report.states_scored),
      report.peaks_close, report.peaks_scored, share(report.peaks_close, report.peaks_scored));
  text += fmt::format("All of them ran; predicted: {} fit, {} tight, {} do not fit\n", report.fits,
                      report.tight, report.does_not_fit);
  for (const std::string& reason : report.skipped) {
    text += "skipped: " + reason + "\n";
  }
  return text;
}

}  // namespace plait
