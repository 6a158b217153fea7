// Batch scripts.
#include <fmt/format.h>

#include "plan/export/exporters.h"
#include "plan/export/script.h"

namespace plait {

std::string slurm_header(const ExportRequest& request, const SlurmTasks& tasks) {
  const Machines machines = machines_of(request);
  const ChipVendor vendor = vendor_of(request.cluster.chip);
  std::string text =
      fmt::format("#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n",
                  request.name, machines.servers, tasks.per_device ? machines.per_server : 1);
  if (vendor != ChipVendor::kCpu) {
    text += fmt::format("#SBATCH --gres={}:{}\n", vendor == ChipVendor::kAscend ? "npu" : "gpu",
                        machines.per_server);
  }
  return text +
         "#SBATCH --exclusive\n"
         "#SBATCH --output=%x-%j.log\n"
         "#SBATCH --signal=TERM@120\n";
}

namespace {

// plait's ranks are processes of srun; the others' launchers run once on every node.
std::string batch_script(const ExportRequest& request, const ExportedFile& launch) {
  const bool own = request.job.stack == Stack::kPlait;
  const Machines machines = machines_of(request);
  std::string text =
      script_head({.headline = headline(request),
                   .kind = "slurm",
                   .directives = slurm_header(request, {.per_device = own}),
                   .usage = fmt::format("Submit it with sbatch from the directory with {}, "
                                        "which names the variables\nthat must be set.\n",
                                        launch.name)});
  text += "cd \"$SLURM_SUBMIT_DIR\"\n";
  if (own) {
    return text + fmt::format("srun --mpi=pmix --ntasks={} --kill-on-bad-exit=1 bash ./{}\n",
                              machines.world, launch.name);
  }
  return text + fmt::format(
                    "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
                    "export MASTER_ADDR\n"
                    "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))\n"
                    "# Each task is one node: its number is known inside srun only.\n"
                    "srun --nodes={} --ntasks-per-node=1 --kill-on-bad-exit=1 \\\n"
                    "  bash -c 'NODE_RANK=$SLURM_NODEID exec bash \"$0\"' ./{}\n",
                    machines.servers, launch.name);
}

}  // namespace

std::vector<ExportedFile> export_slurm(const ExportRequest& request) {
  if (request.job.stack == Stack::kMegatron || request.job.stack == Stack::kMindSpeed) {
    return export_megatron(request, Launcher::kSrun);
  }
  std::vector<ExportedFile> files = export_stack(request);
  files.insert(files.begin(), {request.name + ".sbatch", batch_script(request, files[0]), true});
  return files;
}

}  // namespace plait
