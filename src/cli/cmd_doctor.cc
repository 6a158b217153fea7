#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "doctor/diagnosis.h"
#include "doctor/env_checks.h"
#include "doctor/fault_codes.h"
#include "doctor/rule_list.h"

namespace plait {
namespace {

struct DoctorFlags {
  std::vector<std::string> words;
  std::vector<std::string> rule_folders;
  std::string root;
  std::string record;
  int threads = 2;
  bool json = false;
};

RuleSet load_rules(const DoctorFlags& flags) {
  RuleSet rules;
  for (const std::string& folder : flags.rule_folders) {
    rules.add_folder(folder);
  }
  rules.build_search();
  return rules;
}

int run_logs(const DoctorFlags& flags) {
  const RuleSet rules = load_rules(flags);
  ScanOptions options;
  options.num_threads = flags.threads;
  const Diagnosis diagnosis = diagnose(scan_logs(flags.words, rules, options), rules);
  const std::string text = flags.json ? diagnosis_json(diagnosis) : diagnosis_text(diagnosis);
  std::fputs(text.c_str(), stdout);
  return diagnosis.name == "unknown" ? 1 : 0;
}

int run_explain(const DoctorFlags& flags) {
  bool all_known = true;
  for (const std::string& word : flags.words) {
    const FaultCode code = explain_code(word);
    all_known &= !code.meaning.empty();
    const std::string text = flags.json ? code_json(word, code) : code_text(word, code);
    std::fputs(text.c_str(), stdout);
  }
  return all_known ? 0 : 1;
}

int run_rules(const DoctorFlags& flags) {
  const RuleSet rules = load_rules(flags);
  const std::string text =
      flags.json ? rules_json(rules, flags.words) : rules_text(rules, flags.words);
  std::fputs(text.c_str(), stdout);
  return text.empty() ? 1 : 0;
}

int run_env(const DoctorFlags& flags) {
  const EnvFacts facts = flags.root.empty() ? gather_env() : read_env(flags.root);
  if (!flags.record.empty()) {
    write_env(facts, flags.record);
  }
  const std::vector<EnvCheck> checks = check_env(facts);
  const std::string text = flags.json ? env_json(checks) : env_text(checks);
  std::fputs(text.c_str(), stdout);
  const bool bad = std::any_of(checks.begin(), checks.end(), [](const EnvCheck& check) {
    return check.state == CheckState::kBad;
  });
  return bad ? 1 : 0;
}

void add_rule_folders(CLI::App* command, DoctorFlags& flags) {
  command->add_option("--rules", flags.rule_folders,
                      "a folder with rule files of your own (*.toml; docs/operations.md)");
}

void add_json(CLI::App* command, DoctorFlags& flags) {
  command->add_flag("--json", flags.json, "print the result as JSON");
}

void add_logs(CLI::App* doctor, Command& chosen) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* logs = doctor->add_subcommand(
      "logs", "name cause, guilty rank and fix from the logs of a failed job");
  logs->footer(
      "Reads plog, console output of torch_npu, MindSpore, Megatron and vLLM, dmesg, npu-smi and "
      "hccl_test output, device logs; files, folders, .gz, .tar, .tar.gz; - is standard input.\n"
      "Exit status: 0 a cause was named; 1 unknown; 2 a path cannot be read.\n"
      "Examples:\n"
      "  plait doctor logs ~/ascend/log train.log\n"
      "  plait doctor logs bundle.tar.gz --json\n"
      "  dmesg -T | plait doctor logs -");
  logs->add_option("path", flags->words, "files, folders, archives, or -")->required();
  add_rule_folders(logs, *flags);
  logs->add_option("--threads", flags->threads, "threads that read")->check(CLI::Range(1, 256));
  add_json(logs, *flags);
  logs->callback([flags, &chosen] { chosen = [flags] { return run_logs(*flags); }; });
}

void add_explain(CLI::App* doctor, Command& chosen) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* explain = doctor->add_subcommand(
      "explain", "meaning and first action of an error code (EI0006, 507015, ERR02200, 80E01801)");
  explain->footer("Exit status: 0 known; 1 not known.\nExample: plait doctor explain EI0006");
  explain->add_option("code", flags->words, "codes")->required();
  add_json(explain, *flags);
  explain->callback([flags, &chosen] { chosen = [flags] { return run_explain(*flags); }; });
}

void add_rules(CLI::App* doctor, Command& chosen) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* rules = doctor->add_subcommand("rules", "list the faults that the doctor knows");
  rules->footer("Example: plait doctor rules roce-retransmit");
  rules->add_option("class", flags->words, "show these in full");
  add_rule_folders(rules, *flags);
  add_json(rules, *flags);
  rules->callback([flags, &chosen] { chosen = [flags] { return run_rules(*flags); }; });
}

void add_env(CLI::App* doctor, Command& chosen) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* env = doctor->add_subcommand(
      "env", "check this host before a job: versions, cards, network, limits, variables");
  env->footer(
      "Exit status: 0 nothing bad; 1 something is.\n"
      "Examples:\n"
      "  plait doctor env\n"
      "  plait doctor env --record state && plait doctor env --root state --json");
  env->add_option("--root", flags->root, "a recording to check instead of this host");
  env->add_option("--record", flags->record, "write what was read to this folder");
  add_json(env, *flags);
  env->callback([flags, &chosen] { chosen = [flags] { return run_env(*flags); }; });
}

}  // namespace

void add_doctor_command(CLI::App& app, Command& chosen) {
  CLI::App* doctor = app.add_subcommand("doctor", "find out why a job failed or cannot start");
  doctor->require_subcommand(1);
  add_logs(doctor, chosen);
  add_explain(doctor, chosen);
  add_rules(doctor, chosen);
  add_env(doctor, chosen);
  add_doctor_collect_command(*doctor, chosen);
  add_doctor_selftest_command(*doctor, chosen);
}

}  // namespace plait
