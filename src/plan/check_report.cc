#include "plan/check_report.h"

#include <fmt/format.h>

#include "base/json_full.h"
#include "base/units.h"

namespace plait {
namespace {

std::string job_line(const CheckReport& report) {
  const TrainJob& job = report.job;
  if (report.serves) {
    return fmt::format("  {} on {} devices{}{}\n", to_string(job.layout), report.world_size,
                       job.model_name.empty() ? "" : ", ", job.model_name);
  }
  std::string text =
      fmt::format("  {} on {} devices, micro-batch {}, global batch {}, {} tokens",
                  to_string(job.layout), report.world_size, job.batch.micro_batch_size,
                  job.batch.global_batch_size, job.batch.seq_len);
  if (report.has_model) {
    text += fmt::format("; {} layers, hidden {}, {} heads, {} kv heads, vocabulary {}",
                        job.model.num_layers, job.model.hidden_size, job.model.num_heads,
                        job.model.num_kv_heads, job.model.vocab_size);
    if (job.model.moe.num_experts > 0) {
      text += fmt::format(", {} experts", job.model.moe.num_experts);
    }
  }
  return text + "\n";
}

std::string memory_text(const MemoryVerdict& memory) {
  const std::string pool =
      memory.pool > 0
          ? fmt::format(", a pool of {:.1f} by {}", memory.pool / kGiB, memory.pool_where.text())
          : "";
  std::string text = fmt::format("\nmemory on {} ({:.1f} GiB usable{}): {}\n", memory.chip,
                                 memory.capacity / kGiB, pool, fit_name(memory.fit));
  for (const StageMemoryPlan& stage : memory.stages) {
    text += fmt::format(
        "  stage {:>3}: {:7.2f} GiB ({:.2f} to {:.2f}): states {:.2f}, activations {:.2f}, logits "
        "{:.2f}, transient {:.2f}, communication {:.2f}: {}\n",
        stage.stage, stage.peak.best / kGiB, stage.peak.low / kGiB, stage.peak.high / kGiB,
        stage.bytes.states() / kGiB, stage.bytes.activations / kGiB, stage.bytes.logits / kGiB,
        stage.bytes.transient / kGiB, stage.bytes.comm / kGiB, fit_name(stage.fit));
  }
  return text;
}

std::string proposal_text(const Proposal& proposal) {
  std::string text =
      fmt::format("\nsmallest change that works: {}\n", to_string(proposal.job.layout));
  for (const ProposedChange& change : proposal.changes) {
    text += fmt::format("  {}: {} {} -> {}\n", change.where.line > 0 ? change.where.text() : "new",
                        change.name, change.before, change.after);
  }
  if (proposal.step_seconds > 0) {
    text += fmt::format("  estimated step {:.2f} s\n", proposal.step_seconds);
  }
  return text;
}

void add_notes(std::string& text, const char* title, const std::vector<Note>& notes) {
  if (notes.empty()) {
    return;
  }
  text += fmt::format("\n{}:\n", title);
  for (const Note& note : notes) {
    text += fmt::format("  {}: {}\n", note.where.text(), note.text);
  }
}

Json place(const SourceLine& where) {
  return {{"file", where.file}, {"line", where.line}};
}

Json notes_json(const std::vector<Note>& notes) {
  Json list = Json::array();
  for (const Note& note : notes) {
    list.push_back({{"text", note.text}, {"where", place(note.where)}});
  }
  return list;
}

Json memory_json(const MemoryVerdict& memory) {
  Json stages = Json::array();
  for (const StageMemoryPlan& stage : memory.stages) {
    const StageBytes& bytes = stage.bytes;
    stages.push_back({{"stage", stage.stage},
                      {"parameters", stage.parameters},
                      {"in_flight", stage.max_in_flight},
                      {"weights", bytes.weights},
                      {"gradients", bytes.gradients},
                      {"optimizer", bytes.optimizer},
                      {"activations", bytes.activations},
                      {"logits", bytes.logits},
                      {"transient", bytes.transient},
                      {"comm", bytes.comm},
                      {"peak_low", stage.peak.low},
                      {"peak", stage.peak.best},
                      {"peak_high", stage.peak.high},
                      {"fit", fit_name(stage.fit)}});
  }
  Json json = {{"chip", memory.chip},
               {"capacity", memory.capacity},
               {"fit", fit_name(memory.fit)},
               {"stages", stages}};
  json["pool"] = memory.pool > 0
                     ? Json({{"bytes", memory.pool}, {"where", place(memory.pool_where)}})
                     : Json(nullptr);
  return json;
}

Json proposal_json(const Proposal& proposal) {
  Json changes = Json::array();
  for (const ProposedChange& change : proposal.changes) {
    changes.push_back({{"key", change.key},
                       {"name", change.name},
                       {"before", change.before},
                       {"after", change.after},
                       {"where", place(change.where)}});
  }
  return {{"layout", to_string(proposal.job.layout)},
          {"micro_batch_size", proposal.job.batch.micro_batch_size},
          {"global_batch_size", proposal.job.batch.global_batch_size},
          {"recompute", recompute_name(proposal.job.layout.recompute)},
          {"step_seconds", proposal.step_seconds},
          {"changes", changes}};
}

Json job_json(const CheckReport& report) {
  const TrainJob& job = report.job;
  Json json = {{"stack", stack_name(job.stack)},
               {"layout", to_string(job.layout)},
               {"schedule", schedule_name(job.layout.schedule)},
               {"recompute", recompute_name(job.layout.recompute)},
               {"world_size", report.world_size},
               {"micro_batch_size", job.batch.micro_batch_size},
               {"global_batch_size", job.batch.global_batch_size},
               {"seq_len", job.batch.seq_len}};
  if (report.has_model) {
    json["model"] = {
        {"num_layers", job.model.num_layers},           {"hidden_size", job.model.hidden_size},
        {"ffn_hidden_size", job.model.ffn_hidden_size}, {"num_heads", job.model.num_heads},
        {"num_kv_heads", job.model.num_kv_heads},       {"vocab_size", job.model.vocab_size},
        {"num_experts", job.model.moe.num_experts}};
  }
  return json;
}

}  // namespace

std::string check_report_text(const CheckReport& report) {
  const size_t errors = static_cast<size_t>(report.num_errors());
  std::string text = fmt::format("{}: {}: {} error{}, {} warning{}\n", report.origin, report.kind,
                                 errors, errors == 1 ? "" : "s", report.problems.size() - errors,
                                 report.problems.size() - errors == 1 ? "" : "s");
  text += job_line(report);
  for (const CheckProblem& problem : report.problems) {
    text += fmt::format("\n{}: {}: {}={}: {}\n  try {}\n  source: {}\n", problem.where.text(),
                        severity_name(problem.severity), problem.key, problem.value, problem.rule,
                        problem.suggestion, problem.source);
  }
  if (!report.unknown_flags.empty()) {
    text += "\nunknown, not used:\n";
    for (const UnknownFlag& flag : report.unknown_flags) {
      text += fmt::format("  {}: {}{}\n", flag.where.text(), flag.text,
                          flag.nearest.empty() ? "" : fmt::format(" (near {})", flag.nearest));
    }
  }
  if (report.memory) {
    text += memory_text(*report.memory);
  }
  add_notes(text, "serving", report.serving);
  if (report.proposal) {
    text += proposal_text(*report.proposal);
  }
  if (report.least_devices > 0) {
    text += fmt::format(
        "\nno layout of {} devices was found to fit; {} devices hold it (plait plan --devices {} "
        "shows how)\n",
        report.world_size, report.least_devices, report.least_devices);
  }
  add_notes(text, "assumed", report.assumptions);
  add_notes(text, "not evaluated", report.not_evaluated);
  return text;
}

std::string check_report_json(const CheckReport& report) {
  Json problems = Json::array();
  for (const CheckProblem& problem : report.problems) {
    problems.push_back({{"severity", severity_name(problem.severity)},
                        {"key", problem.key},
                        {"value", problem.value},
                        {"rule", problem.rule},
                        {"suggestion", problem.suggestion},
                        {"source", problem.source},
                        {"where", place(problem.where)}});
  }
  Json unknown = Json::array();
  for (const UnknownFlag& flag : report.unknown_flags) {
    unknown.push_back(
        {{"text", flag.text}, {"nearest", flag.nearest}, {"where", place(flag.where)}});
  }
  Json json = {{"file", report.origin},
               {"kind", report.kind},
               {"ok", report.ok()},
               {"problems", problems},
               {"unknown_flags", unknown},
               {"assumptions", notes_json(report.assumptions)},
               {"not_evaluated", notes_json(report.not_evaluated)},
               {"job", job_json(report)}};
  json["memory"] = report.memory ? memory_json(*report.memory) : Json(nullptr);
  json["serving"] = notes_json(report.serving);
  json["least_devices"] = report.least_devices > 0 ? Json(report.least_devices) : Json(nullptr);
  json["proposal"] = report.proposal ? proposal_json(*report.proposal) : Json(nullptr);
  return dump_json(json, 2) + "\n";
}

}  // namespace plait
