#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/json_full.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/hf_export.h"
#include "cli/commands.h"

namespace plait {
namespace {

struct CheckpointFlags {
  std::string directory;
  HfExportOptions hf;
  std::string dtype = "f32";
  bool json = false;
};

int run_list(const CheckpointFlags& flags) {
  Json list = Json::array();
  int usable = 0;
  for (const CheckpointEntry& entry : list_checkpoints(flags.directory)) {
    usable += entry.problem.empty() ? 1 : 0;
    list.push_back({{"path", entry.path}, {"step", entry.step}, {"problem", entry.problem}});
    if (!flags.json) {
      std::printf("%10lld  %s  %s\n", static_cast<long long>(entry.step), entry.path.c_str(),
                  entry.problem.empty() ? "ok" : entry.problem.c_str());
    }
  }
  if (flags.json) {
    std::puts(dump_json(list, 2).c_str());
  }
  if (list.empty()) {
    std::fprintf(stderr, "plait: '%s' holds no checkpoint (step-N folders)\n",
                 flags.directory.c_str());
  }
  return usable > 0 ? 0 : 1;
}

int run_verify(const CheckpointFlags& flags) {
  CheckpointReader reader(flags.directory);
  reader.verify();
  std::printf("%s: all checksums match\n", flags.directory.c_str());
  return 0;
}

int run_export(CheckpointFlags& flags) {
  if (flags.dtype != "f32" && flags.dtype != "bf16") {
    throw_error(ErrorCode::kInvalidArgument, "dtype={}: allowed are f32 and bf16", flags.dtype);
  }
  flags.hf.dtype = flags.dtype == "f32" ? DType::kF32 : DType::kBF16;
  export_hf(flags.hf);
  std::printf("%s: HF model directory\n", flags.hf.output.c_str());
  return 0;
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<CheckpointFlags>();
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "list, check and export checkpoints");
  checkpoint->require_subcommand(1);
  checkpoint->footer(
      "Examples:\n"
      "  plait checkpoint list run/checkpoints\n"
      "  plait checkpoint export run/checkpoints/step-00000100 hf-model --dtype bf16");
  CLI::App* list = checkpoint->add_subcommand("list", "the checkpoints of a run");
  list->add_option("directory", flags->directory, "folder with step-N folders")->required();
  list->add_flag("--json", flags->json, "print the result as JSON");
  list->callback([flags, &chosen] { chosen = [flags] { return run_list(*flags); }; });
  CLI::App* verify = checkpoint->add_subcommand("verify", "compare every byte with its checksum");
  verify->add_option("checkpoint", flags->directory, "a step-N folder")->required();
  verify->callback([flags, &chosen] { chosen = [flags] { return run_verify(*flags); }; });
  CLI::App* hf = checkpoint->add_subcommand("export", "to a directory that HF transformers loads");
  hf->add_option("checkpoint", flags->hf.checkpoint, "a step-N folder")->required();
  hf->add_option("output", flags->hf.output, "new folder")->required();
  hf->add_option("--dtype", flags->dtype, "f32 or bf16")->capture_default_str();
  hf->callback([flags, &chosen] { chosen = [flags] { return run_export(*flags); }; });
}

}  // namespace plait
