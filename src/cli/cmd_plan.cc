#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/plan_flags.h"
#include "plan/neighbours.h"
#include "plan/report.h"
#include "plan/report_html.h"
#include "plan/score_memory.h"
#include "plan/search.h"
#include "spec/model_catalog.h"

namespace plait {
namespace {

struct SearchFlags {
  PlanFlags plan;
  std::string goal = "throughput";
  std::vector<std::string> fix;
  int max_tp = 0;
  int top = 10;
  int threads = 0;
  double tokens = 0;
};

// "tp=8", "micro_batch=2", "sp=on", "recompute=full".
void fix_degree(const std::string& setting, FixedDegrees& fixed) {
  const size_t equals = setting.find('=');
  const std::string key = setting.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : setting.substr(equals + 1);
  if (key == "recompute") {
    fixed.recompute = parse_recompute(value);
    return;
  }
  if (key == "sp") {
    if (value != "on" && value != "off") {
      throw_error(ErrorCode::kInvalidArgument, "fix {}: allowed are sp=on and sp=off", setting);
    }
    fixed.sp = value == "on";
    return;
  }
  int number = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = error == std::errc() && stop == value.data() + value.size() && number >= 0;
  const std::pair<const char*, int*> degrees[] = {
      {"tp", &fixed.tp}, {"pp", &fixed.pp}, {"vpp", &fixed.vpp},  {"cp", &fixed.cp},
      {"ep", &fixed.ep}, {"dp", &fixed.dp}, {"zero", &fixed.zero}};
  for (const auto& [name, degree] : degrees) {
    if (key == name && whole && (number > 0 || key == "zero")) {
      *degree = number;
      return;
    }
  }
  if (key == "micro_batch" && whole && number > 0) {
    fixed.micro_batch = number;
    return;
  }
  throw_error(ErrorCode::kInvalidArgument,
              "fix {}: allowed are tp, pp, vpp, cp, ep, dp, micro_batch and zero with a number, "
              "sp=on|off and recompute=none|selective|full",
              setting);
}

std::string training_text(const SearchFlags& flags, const SearchResult& result) {
  if (flags.tokens <= 0 || result.best.empty()) {
    return "";
  }
  const Candidate& best = result.best.front();
  const double world = best.job.layout.world_size();
  const double seconds = flags.tokens / (best.estimate.tokens_per_second_per_device * world);
  return fmt::format("{:.3g} tokens take {:.1f} days, {:.0f} device hours.\n", flags.tokens,
                     seconds / 86400, seconds / 3600 * world);
}

int run_search(const SearchFlags& flags) {
  if (!std::isfinite(flags.tokens) || flags.tokens < 0) {
    throw_error(ErrorCode::kInvalidArgument, "tokens={}: a number of at least 0, such as 2e12",
                flags.tokens);
  }
  SearchRequest request;
  request.job = job_of(flags.plan);
  request.cluster = cluster_of(flags.plan, flags.plan.devices);
  request.devices = flags.plan.devices > 0 ? flags.plan.devices : request.cluster.devices();
  if (flags.goal != "throughput" && flags.goal != "memory") {
    throw_error(ErrorCode::kInvalidArgument, "goal={}: allowed are throughput and memory",
                flags.goal);
  }
  request.goal = flags.goal == "memory" ? Goal::kMemory : Goal::kThroughput;
  for (const std::string& setting : flags.fix) {
    fix_degree(setting, request.fixed);
  }
  request.max_tp = flags.max_tp;
  request.top = flags.top;
  request.threads = flags.threads;
  request.scatter = flags.plan.html.empty() ? 0 : kHtmlScatterPoints;
  const SearchResult result = search_layouts(request);
  if (!flags.plan.html.empty()) {
    write_file_atomic(flags.plan.html, search_html(request, result));
  }
  if (flags.plan.json) {
    std::puts(search_json(request, result).c_str());
  } else {
    std::fputs((search_text(request, result) + training_text(flags, result)).c_str(), stdout);
    std::fputs(("\n" + limits_text(request, result) + provenance_text(request.cluster)).c_str(),
               stdout);
  }
  return result.best.empty() ? 1 : 0;
}

int run_estimate(const PlanFlags& flags) {
  const TrainJob job = job_with_layout(flags, flags.layout);
  check_job(job, flags.devices);
  const Cluster cluster = cluster_of(flags, job.layout.world_size());
  check_chip(job, cluster.chip);
  const Estimate estimate = estimate_job(job, cluster);
  if (!flags.html.empty()) {
    write_file_atomic(flags.html, estimate_html(job, cluster, estimate));
  }
  if (flags.json) {
    std::puts(estimate_json(job, cluster, estimate).c_str());
  } else {
    std::fputs((estimate_text(job, cluster, estimate) + "\n" + provenance_text(cluster)).c_str(),
               stdout);
  }
  return estimate.fit == Fit::kDoesNotFit ? 1 : 0;
}

int run_diff(const PlanFlags& flags, const std::vector<std::string>& layouts) {
  std::vector<Candidate> candidates;
  for (const std::string& layout : layouts) {
    Candidate candidate;
    candidate.job = job_with_layout(flags, layout);
    check_job(candidate.job, flags.devices);
    const Cluster cluster = cluster_of(flags, candidate.job.layout.world_size());
    check_chip(candidate.job, cluster.chip);
    candidate.estimate = estimate_job(candidate.job, cluster);
    candidates.push_back(std::move(candidate));
  }
  if (flags.json) {
    std::string text = "[";
    for (const Candidate& candidate : candidates) {
      text += (text.size() > 1 ? ",\n" : "") +
              estimate_json(candidate.job, cluster_of(flags, candidate.job.layout.world_size()),
                            candidate.estimate);
    }
    std::puts((text + "]").c_str());
    return 0;
  }
  std::fputs(diff_text(candidates[0], candidates[1]).c_str(), stdout);
  return 0;
}

struct ScoreFlags {
  std::string table;
  std::string cluster;
  std::string stack = "megatron";
  std::vector<std::string> assume;
  std::string memory;
  bool fit = false;
  bool hold_out = false;
  bool json = false;
};

int run_score(const ScoreFlags& flags) {
  if (!flags.memory.empty()) {
    const MemoryReport report =
        score_memory(read_csv(flags.table), read_csv(flags.memory), load_cluster(flags.cluster));
    std::fputs(memory_report_text(report).c_str(), stdout);
    return 0;
  }
  ScoreTableOptions options;
  options.stack = parse_stack(flags.stack);
  for (const std::string& setting : flags.assume) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      throw_error(ErrorCode::kInvalidArgument, "assume {}: write column=value", setting);
    }
    options.assume[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  ScoreTable table = read_score_table(read_csv(flags.table), options);
  const Cluster cluster = load_cluster(flags.cluster);
  assume_recompute(table, cluster);
  const ScoreReport report = score_runs(table, cluster);
  if (flags.json) {
    std::puts(score_json(table, report).c_str());
    return 0;
  }
  std::string text = score_text(table, report);
  if (flags.fit) {
    text += fit_text(fit_cluster(table.runs, cluster));
  }
  if (flags.hold_out) {
    text += hold_out_text(leave_one_model_out(table, cluster));
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

void add_score(CLI::App& plan, Command& chosen) {
  auto flags = std::make_shared<ScoreFlags>();
  CLI::App* score =
      plan.add_subcommand("score", "compare predictions with a table of measured runs");
  score->add_option("table", flags->table, "CSV file; docs/planning.md lists the columns")
      ->required();
  score->add_option("--cluster", flags->cluster, "where the runs were measured")->required();
  score->add_option("--stack", flags->stack, "what ran them")->capture_default_str();
  score->add_option("--assume", flags->assume, "column=value for rows without one; repeatable");
  score->add_option(
      "--memory", flags->memory,
      "CSV with tag, config, rank, allocated_MiB, max_allocated_MiB: score memory; the "
      "table then has tag, config, devices and all_flags");
  score->add_flag("--fit", flags->fit,
                  "also fit the cluster's constants to the runs and print them");
  score->add_flag("--hold-out", flags->hold_out,
                  "also predict every model with constants fitted to the others");
  score->add_flag("--json", flags->json);
  score->footer("Example: plait plan score runs.csv --cluster a100 --assume recompute=full");
  score->callback([&chosen, flags] { chosen = [flags] { return run_score(*flags); }; });
}

void add_lists(CLI::App& plan, Command& chosen) {
  plan.add_subcommand("models", "names of the model catalogue")->callback([&chosen] {
    chosen = [] {
      for (const std::string& name : model_names()) {
        std::puts(name.c_str());
      }
      return 0;
    };
  });
  plan.add_subcommand("clusters", "names of the cluster catalogue")->callback([&chosen] {
    chosen = [] {
      for (const std::string& name : cluster_names()) {
        std::puts(name.c_str());
      }
      return 0;
    };
  });
}

}  // namespace

void add_plan_command(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<SearchFlags>();
  CLI::App* plan = app.add_subcommand("plan", "choose, explain and check a layout, offline");
  plan->require_subcommand(0, 1);
  add_problem_options(*plan, flags->plan);
  plan->add_option("--html", flags->plan.html, "write a page with drawings to this file");
  plan->add_option("--goal", flags->goal, "throughput or memory")->capture_default_str();
  plan->add_option("--fix", flags->fix, "a degree that is given, for example tp=8; repeatable");
  plan->add_option("--max-tp", flags->max_tp, "default: the devices of a server")
      ->check(CLI::Range(0, 1000000));
  plan->add_option("--top", flags->top, "layouts to show")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  plan->add_option("--threads", flags->threads, "default: all cores")->check(CLI::Range(0, 1024));
  plan->add_option("--tokens", flags->tokens, "training length, for days and device hours");
  plan->footer(
      "Examples:\n"
      "  plait plan --model llama2-13b --cluster 910b3x8 --global-batch 512 --seq 4096\n"
      "  plait plan estimate --model llama2-13b --cluster 910b3 --devices 8 --layout tp8.sp \\\n"
      "      --global-batch 512 --seq 4096 --micro-batch 4\n"
      "  plait plan check pretrain.sh\n"
      "Exit status: 0 something fits; 1 nothing does; 2 bad usage.");
  plan->callback([&chosen, flags, plan] {
    if (plan->get_subcommands().empty()) {
      chosen = [flags] { return run_search(*flags); };
    }
  });

  auto one = std::make_shared<PlanFlags>();
  CLI::App* estimate = plan->add_subcommand("estimate", "one layout: memory, time and traffic");
  add_problem_options(*estimate, *one);
  add_layout_options(*estimate, *one);
  estimate->add_option("--html", one->html, "write a page with drawings to this file");
  estimate->callback([&chosen, one] { chosen = [one] { return run_estimate(*one); }; });

  auto two = std::make_shared<PlanFlags>();
  auto layouts = std::make_shared<std::vector<std::string>>();
  CLI::App* diff = plan->add_subcommand("diff", "two layouts side by side");
  add_problem_options(*diff, *two);
  add_layout_options(*diff, *two);
  diff->add_option("layouts", *layouts, "for example tp8.sp tp4.pp2.sp")->expected(2)->required();
  diff->callback(
      [&chosen, two, layouts] { chosen = [two, layouts] { return run_diff(*two, *layouts); }; });
  add_plan_calibrate_command(*plan, chosen);
  add_plan_check_command(*plan, chosen);
  add_plan_export_command(*plan, chosen);
  add_plan_serve_command(*plan, chosen);
  add_plan_explain_command(*plan, chosen);
  add_score(*plan, chosen);
  add_lists(*plan, chosen);
}

}  // namespace plait
