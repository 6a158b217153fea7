// Files that run a planned job elsewhere: launch scripts, configuration, scheduler manifests and
// rank tables. They are complete: what no plan knows (paths of data and tokenizer, a container
// image) is a variable at the top that is checked before anything starts. What a target cannot
// express is refused by name, never dropped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/job.h"
#include "topology/cluster.h"

namespace plait {

enum class ExportKind : uint8_t {
  kMegatron,     // launch script of Megatron-LM's pretrain_gpt.py
  kMindSpeed,    // launch script of MindSpeed-LLM
  kMindFormers,  // YAML and launch script
  kDeepSpeed,    // JSON and launch script of a program that takes HF TrainingArguments
  kVllmAscend,   // command line of vllm serve
  kPlait,        // run file, model config and launch script of plait train
  kSlurm,        // batch script of the job's stack
  kVolcano,      // Volcano Job of the job's stack
  kAscendJob,    // AscendJob (Ascend Operator) of the job's stack
  kRankTable,    // HCCL rank table: 1.0, or 1.2 for the A3
};
const char* export_kind_name(ExportKind kind);  // "megatron", ..., "vllm-ascend", ..., "ranktable"
// Errors: kInvalidArgument with the names that exist.
ExportKind parse_export_kind(const std::string& name);

// A device in a rank table.
struct DeviceAddress {
  std::string ip;        // of the device's own RoCE port: address_N in /etc/hccn.conf
  std::string super_id;  // SDID (npu-smi info -t spod-info); A3 only
};

// A server in a rank table.
struct ServerAddress {
  std::string name;       // at most 64 characters, unique
  std::string host_ip;    // of the host
  std::string super_pod;  // id of its super pod; A3 only
  std::vector<DeviceAddress> devices;
};

// Lines "NAME HOST_IP [pod=ID] DEVICE_IP[/SUPER_DEVICE_ID] ...", a server each; '#' begins a
// comment. Errors: kInvalidArgument naming file and line; kNotFound, kIo.
std::vector<ServerAddress> load_servers(const std::string& path);
std::vector<ServerAddress> parse_servers(const std::string& text, const std::string& origin);

struct ExportRequest {
  TrainJob job;     // its stack decides what slurm, volcano and ascendjob start
  Cluster cluster;  // sized to the layout
  // The model comes from the catalogue, which knows sizes: RoPE and epsilon become variables that
  // must be set.
  bool sizes_only = false;
  // Of the job and its files: lower-case letters, digits and '-', at most 40.
  std::string name = "plait-train";
  std::vector<ServerAddress> servers;  // for a rank table; empty: placeholders
  // vllm-ascend
  double memory_utilization = 0.9;
  int64_t max_sequences = 256;
};

struct ExportedFile {
  std::string name;  // in the directory of the export
  std::string text;
  bool executable = false;
};

// The main file first. Errors: kInvalidArgument for a job with problems (find_job_problems), a bad
// name or a cluster too small; kNotImplemented listing everything that the target cannot express.
std::vector<ExportedFile> export_plan(ExportKind kind, const ExportRequest& request);

}  // namespace plait
