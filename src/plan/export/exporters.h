// One function per target. Internal to plan/export.
#pragma once

#include <string>
#include <vector>

#include "plan/export/export.h"

namespace plait {

struct Refusal {
  std::string setting;  // what the plan asks for: "cp = 2"
  std::string why;      // what the target has instead
};

// Gathers what a target cannot express, to report all of it at once.
class Refusals {
 public:
  explicit Refusals(std::string target) : target_(std::move(target)) {}

  void when(bool refused, const Refusal& refusal);
  // Throws kNotImplemented if anything was refused.
  void check() const;

 private:
  std::string target_;
  std::vector<std::string> lines_;
};

// Where the ranks run.
struct Machines {
  int world = 1;
  int servers = 1;
  int per_server = 1;  // devices used on each
};
Machines machines_of(const ExportRequest& request);

enum class ChipVendor : uint8_t { kAscend, kNvidia, kCpu };
ChipVendor vendor_of(const Chip& chip);
bool is_a3(const Chip& chip);  // 910C: super pods

// "llama2-13b: dp2.tp8.sp.zero1 mb1, 512 x 4096 tokens a step, on 2 servers of 8 x 910B3"
std::string headline(const ExportRequest& request);

// How the processes of a script are started.
enum class Launcher : uint8_t {
  kTorchrun,  // the script runs once on every server
  kSrun,      // the script is a batch job and starts torchrun on every server
};

std::vector<ExportedFile> export_megatron(const ExportRequest& request, Launcher launcher);
std::vector<ExportedFile> export_mindformers(const ExportRequest& request);
std::vector<ExportedFile> export_deepspeed(const ExportRequest& request);
std::vector<ExportedFile> export_vllm(const ExportRequest& request);
std::vector<ExportedFile> export_plait(const ExportRequest& request);
std::vector<ExportedFile> export_slurm(const ExportRequest& request);
std::vector<ExportedFile> export_volcano(const ExportRequest& request);
std::vector<ExportedFile> export_ascend_job(const ExportRequest& request);
std::vector<ExportedFile> export_rank_table(const ExportRequest& request);

// The files of the job's own stack, launch script first.
std::vector<ExportedFile> export_stack(const ExportRequest& request);

// #SBATCH lines; one task a server, or one a device.
struct SlurmTasks {
  bool per_device = false;
};
std::string slurm_header(const ExportRequest& request, const SlurmTasks& tasks);

}  // namespace plait
