#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/plan_flags.h"
#include "plan/export/export.h"
#include "spec/model_catalog.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

struct ExportFlags {
  PlanFlags plan;
  std::string to;
  std::string out;
  std::string file;
  std::string name = "plait-train";
  std::string hosts;
  double memory_utilization = 0.9;
  int64_t max_sequences = 256;
  bool force = false;
};

ExportRequest request_of(const ExportFlags& flags, ExportKind kind) {
  ExportRequest request;
  PlanFlags plan = flags.plan;
  const bool trains = kind != ExportKind::kVllmAscend && kind != ExportKind::kRankTable;
  if (!trains && plan.global_batch == 0) {
    plan.global_batch = 1;
  }
  if (kind == ExportKind::kRankTable) {  // the devices alone matter
    plan.model = plan.model.empty() ? "llama-2-7b" : plan.model;
    plan.seq = plan.seq == 0 ? 1 : plan.seq;
  }
  request.job = job_with_layout(plan, plan.layout);
  request.cluster = cluster_of(plan, request.job.layout.world_size());
  request.sizes_only = !knows_constants(plan.model);
  request.name = flags.name;
  request.memory_utilization = flags.memory_utilization;
  request.max_sequences = flags.max_sequences;
  if (!flags.hosts.empty()) {
    request.servers = load_servers(flags.hosts);
  }
  return request;
}

void print_one(const std::vector<ExportedFile>& files, const std::string& wanted) {
  std::string names;
  for (const ExportedFile& file : files) {
    if (file.name == wanted || (wanted.empty() && files.size() == 1)) {
      std::fputs(file.text.c_str(), stdout);
      return;
    }
    names += (names.empty() ? "" : ", ") + file.name;
  }
  throw_error(ErrorCode::kInvalidArgument,
              "the export has {} files ({}): --out DIR writes them, --file NAME prints one",
              files.size(), names);
}

// All or nothing: no file is written if one is in the way.
void write_all(const std::vector<ExportedFile>& files, const ExportFlags& flags) {
  const fs::path directory = flags.out;
  for (const ExportedFile& file : files) {
    const fs::path path = directory / file.name;
    if (!flags.force && fs::exists(path)) {
      throw_error(ErrorCode::kInvalidArgument, "{} exists; --force overwrites it", path.string());
    }
  }
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed) {
    throw_error(ErrorCode::kIo, "cannot create {}: {}", directory.string(), failed.message());
  }
  for (const ExportedFile& file : files) {
    const fs::path path = directory / file.name;
    write_file_atomic(path.string(), file.text);
    if (file.executable) {
      constexpr auto kRun = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
      fs::permissions(path, kRun, fs::perm_options::add, failed);
    }
    std::printf("%s\n", path.c_str());
  }
}

int run_export(const ExportFlags& flags) {
  const ExportKind kind = parse_export_kind(flags.to);
  const std::vector<ExportedFile> files = export_plan(kind, request_of(flags, kind));
  if (flags.out.empty()) {
    print_one(files, flags.file);
  } else {
    write_all(files, flags);
  }
  return 0;
}

}  // namespace

void add_plan_export_command(CLI::App& plan, Command& chosen) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = plan.add_subcommand("export", "files that run a layout elsewhere");
  add_problem_options(*command, flags->plan);
  add_layout_options(*command, flags->plan);
  command
      ->add_option("--to", flags->to,
                   "megatron, mindspeed, mindformers, deepspeed, vllm-ascend, plait, slurm, "
                   "volcano, ascendjob or ranktable")
      ->required();
  command->add_option("--out", flags->out, "directory to write to; default: stdout");
  command->add_option("--file", flags->file, "which file of several goes to stdout");
  command->add_option("--name", flags->name, "of the job and its files")->capture_default_str();
  command->add_option("--hosts", flags->hosts,
                      "for ranktable: lines NAME HOST_IP [pod=ID] DEVICE_IP[/SUPER_DEVICE_ID] ...");
  command->add_option("--memory-utilization", flags->memory_utilization, "for vllm-ascend")
      ->capture_default_str();
  command->add_option("--max-sequences", flags->max_sequences, "for vllm-ascend")
      ->capture_default_str();
  command->add_flag("--force", flags->force, "overwrite files");
  command->footer(
      "Examples:\n"
      "  plait plan export --to mindspeed --model llama-2-13b --cluster 910b3 --global-batch 512 "
      "\\\n"
      "      --seq 4096 --layout dp2.tp8.sp.zero1 --out job\n"
      "  plait plan export --to slurm --stack mindspeed ... --out job\n"
      "  plait plan export --to ranktable --cluster 910b3 --layout dp2.tp8 --hosts hosts.txt");
  command->callback([&chosen, flags] { chosen = [flags] { return run_export(*flags); }; });
}

}  // namespace plait
