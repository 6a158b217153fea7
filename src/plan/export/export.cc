#include "plan/export/export.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/text.h"
#include "plan/estimate.h"
#include "plan/export/exporters.h"
#include "plan/search.h"

namespace plait {
namespace {

struct KindName {
  ExportKind kind;
  const char* name;
};
constexpr KindName kKinds[] = {{ExportKind::kMegatron, "megatron"},
                               {ExportKind::kMindSpeed, "mindspeed"},
                               {ExportKind::kMindFormers, "mindformers"},
                               {ExportKind::kDeepSpeed, "deepspeed"},
                               {ExportKind::kVllmAscend, "vllm-ascend"},
                               {ExportKind::kPlait, "plait"},
                               {ExportKind::kSlurm, "slurm"},
                               {ExportKind::kVolcano, "volcano"},
                               {ExportKind::kAscendJob, "ascendjob"},
                               {ExportKind::kRankTable, "ranktable"}};

// A DNS label with room for what schedulers append.
void check_name(const std::string& name) {
  constexpr size_t kLongest = 40;
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  const bool good = !name.empty() && name.size() <= kLongest && name.front() >= 'a' &&
                    name.front() <= 'z' && name.back() != '-' &&
                    std::all_of(name.begin(), name.end(), fits);
  if (!good) {
    throw_error(ErrorCode::kInvalidArgument,
                "name '{}': lower-case letters, digits and '-', beginning with a letter, at most "
                "{} characters; for example llama2-13b",
                name.substr(0, 80), kLongest);
  }
}

// The stack whose rules the files must satisfy.
Stack stack_of(ExportKind kind, Stack given) {
  switch (kind) {
    case ExportKind::kMegatron:
      return Stack::kMegatron;
    case ExportKind::kMindSpeed:
      return Stack::kMindSpeed;
    case ExportKind::kMindFormers:
      return Stack::kMindFormers;
    case ExportKind::kDeepSpeed:
      return Stack::kDeepSpeed;
    case ExportKind::kPlait:
      return Stack::kPlait;
    default:
      return given;
  }
}

}  // namespace

const char* export_kind_name(ExportKind kind) {
  for (const KindName& entry : kKinds) {
    if (entry.kind == kind) {
      return entry.name;
    }
  }
  return "?";
}

ExportKind parse_export_kind(const std::string& name) {
  std::string names;
  for (const KindName& entry : kKinds) {
    if (name == entry.name) {
      return entry.kind;
    }
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw_error(ErrorCode::kInvalidArgument, "cannot export to '{}': allowed are {}",
              name.substr(0, 80), names);
}

void Refusals::when(bool refused, const Refusal& refusal) {
  if (refused) {
    lines_.push_back(refusal.setting + ": " + refusal.why);
  }
}

void Refusals::check() const {
  if (lines_.empty()) {
    return;
  }
  std::string text = fmt::format("this plan cannot be written for {}:", target_);
  for (const std::string& line : lines_) {
    text += "\n  " + line;
  }
  throw Error(ErrorCode::kNotImplemented, text);
}

Machines machines_of(const ExportRequest& request) {
  Machines machines;
  machines.world = request.job.layout.world_size();
  const int whole = request.cluster.devices_per_server;
  machines.per_server = std::min(machines.world, whole);
  machines.servers = (machines.world + whole - 1) / whole;
  return machines;
}

ChipVendor vendor_of(const Chip& chip) {
  const std::string name = lower(chip.name);
  if (name.find("910") != std::string::npos || name.find("310") != std::string::npos ||
      name.find("ascend") != std::string::npos) {
    return ChipVendor::kAscend;
  }
  return name.find("cpu") != std::string::npos ? ChipVendor::kCpu : ChipVendor::kNvidia;
}

bool is_a3(const Chip& chip) {
  const std::string name = lower(chip.name);
  return name.find("910c") != std::string::npos || name.find("910_93") != std::string::npos;
}

std::string headline(const ExportRequest& request) {
  const TrainJob& job = request.job;
  const Machines machines = machines_of(request);
  std::string model = job.model_name;
  while (!model.empty() && model.back() == '/') {
    model.pop_back();
  }
  model = model.substr(model.rfind('/') + 1);
  std::replace_if(
      model.begin(), model.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return fmt::format(
      "{}: {}, {} x {} tokens a step, on {} of {} x {}", model.empty() ? "a model" : model,
      describe_layout(job), job.batch.global_batch_size, job.batch.seq_len,
      machines.servers == 1 ? "1 server" : fmt::format("{} servers", machines.servers),
      machines.per_server, request.cluster.chip.name);
}

std::vector<ExportedFile> export_stack(const ExportRequest& request) {
  switch (request.job.stack) {
    case Stack::kMegatron:
    case Stack::kMindSpeed:
      return export_megatron(request, Launcher::kTorchrun);
    case Stack::kDeepSpeed:
      return export_deepspeed(request);
    case Stack::kMindFormers:
      return export_mindformers(request);
    case Stack::kPlait:
      break;
  }
  return export_plait(request);
}

std::vector<ExportedFile> export_plan(ExportKind kind, const ExportRequest& given) {
  check_name(given.name);
  ExportRequest request = given;
  request.job.stack = stack_of(kind, given.job.stack);
  request.cluster = with_devices(given.cluster, request.job.layout.world_size());
  switch (kind) {
    case ExportKind::kVllmAscend:  // no training job
      return export_vllm(request);
    case ExportKind::kRankTable:  // only the devices matter
      return export_rank_table(request);
    default:
      break;
  }
  check_job(request.job, request.job.layout.world_size());
  switch (kind) {
    case ExportKind::kSlurm:
      return export_slurm(request);
    case ExportKind::kVolcano:
      return export_volcano(request);
    case ExportKind::kAscendJob:
      return export_ascend_job(request);
    default:
      return export_stack(request);
  }
}

}  // namespace plait
