// Settings of a proposal, as the program that the file is for writes them.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "base/units.h"
#include "plan/check_proposal.h"

namespace plait {
namespace {

struct FlagName {
  const char* key;
  const char* megatron;
  const char* deepspeed;
  const char* mindformers;
};
constexpr std::array<FlagName, 18> kFlagNames = {{
    {"dp", "data parallelism", "data parallelism", "parallel_config.data_parallel"},
    {"tp", "--tensor-model-parallel-size", "tensor_parallel.autotp_size",
     "parallel_config.model_parallel"},
    {"pp", "--pipeline-model-parallel-size", "pipeline stages", "parallel_config.pipeline_stage"},
    {"vpp", "--num-virtual-stages-per-pipeline-rank", "virtual stages",
     "model_config.pp_interleave_num"},
    {"cp", "--context-parallel-size", "sequence_parallel_size", "parallel_config.context_parallel"},
    {"ep", "--expert-model-parallel-size", "ep_size", "parallel_config.expert_parallel"},
    {"etp", "--expert-tensor-parallel-size", "expert tp", "expert_model_parallel"},
    {"sp", "--sequence-parallel", "sequence parallelism", "parallel_config.use_seq_parallel"},
    {"zero", "--use-distributed-optimizer", "zero_optimization.stage",
     "parallel.enable_parallel_optimizer"},
    {"recompute", "--recompute-granularity", "activation checkpointing",
     "recompute_config.recompute"},
    {"micro_batch_size", "--micro-batch-size", "train_micro_batch_size_per_gpu",
     "runner_config.batch_size"},
    {"global_batch_size", "--global-batch-size", "train_batch_size",
     "parallel_config.micro_batch_num"},
    {"seq_len", "--seq-length", "sequence length", "model_config.seq_length"},
    {"stage_layers", "--num-layer-list", "partition", "model_config.offset"},
    {"offload", "--optimizer-cpu-offload", "zero_optimization.offload_optimizer.device", "swap"},
    {"gradient_accumulation_steps", "accumulation", "gradient_accumulation_steps",
     "runner_config.gradient_accumulation_steps"},
    {"pool", "memory pool", "memory pool", "context.max_device_memory"},
    {"experts_per_token", "--moe-router-topk", "k", "moe_config.num_experts_chosen"},
}};

class Changes {
 public:
  explicit Changes(const ReadJob& read) : read_(read) {}

  template <typename Value>
  void compare(const char* key, const Value& before, const Value& after) {
    if (before != after) {
      add(key, fmt::format("{}", before), fmt::format("{}", after));
    }
  }
  void add(const char* key, std::string before, std::string after, const char* name = nullptr) {
    ProposedChange change{key,
                          name == nullptr ? flag_name(key) : name,
                          std::move(before),
                          std::move(after),
                          {read_.origin, 0}};
    const auto setting = read_.settings.find(key);
    if (setting != read_.settings.end()) {
      change.where = setting->second.where;
      if (name == nullptr && !setting->second.name.empty()) {
        change.name = setting->second.name;
      }
    }
    list_.push_back(std::move(change));
  }
  std::vector<ProposedChange> take() { return std::move(list_); }

 private:
  const char* flag_name(std::string_view key) const {
    for (const FlagName& row : kFlagNames) {
      if (key == row.key) {
        return read_.job.stack == Stack::kDeepSpeed     ? row.deepspeed
               : read_.job.stack == Stack::kMindFormers ? row.mindformers
                                                        : row.megatron;
      }
    }
    return "setting";
  }

  const ReadJob& read_;
  std::vector<ProposedChange> list_;
};

void compare_virtual_stages(Changes& changes, const ReadJob& read, const TrainJob& after) {
  const TrainJob& before = read.job;
  const int64_t chunk = layers_per_virtual_stage(read);
  if (chunk == 0) {
    changes.compare("vpp", before.layout.vpp, after.layout.vpp);
    return;
  }
  const int64_t per_stage = after.model.num_layers / after.layout.pp;
  if (after.layout.vpp == 1) {
    if (before.layout.vpp > 1) {
      changes.add("vpp", std::to_string(chunk), "absent");
    }
  } else if (per_stage / after.layout.vpp != chunk) {
    changes.add("vpp", std::to_string(chunk), std::to_string(per_stage / after.layout.vpp));
  }
}

void compare_stages(Changes& changes, const ReadJob& read, const TrainJob& after) {
  const std::vector<int64_t>& was = read.job.layout.stage_layers;
  const std::vector<int64_t>& now = after.layout.stage_layers;
  if (was == now) {
    return;
  }
  if (now.empty()) {
    changes.add("stage_layers", fmt::format("{}", fmt::join(was, ",")), "absent");
  } else if (read.job.stack == Stack::kMegatron) {
    changes.add("stage_layers", "absent", std::to_string(now.front()),
                "--decoder-first-pipeline-num-layers");
    changes.add("stage_layers", "absent", std::to_string(now.back()),
                "--decoder-last-pipeline-num-layers");
  } else if (read.job.stack == Stack::kMindFormers) {
    // What each stage has more or less than the even share.
    const int64_t even = after.model.num_layers / static_cast<int64_t>(now.size());
    std::vector<int64_t> offset = now;
    for (int64_t& layers : offset) {
      layers -= even;
    }
    changes.add("stage_layers", was.empty() ? "absent" : "the list",
                fmt::format("[{}]", fmt::join(offset, ", ")));
  } else {
    changes.add("stage_layers", was.empty() ? "absent" : fmt::format("{}", fmt::join(was, ",")),
                fmt::format("{}", fmt::join(now, ",")));
  }
}

// "full", or the list of layers by stage as MindFormers has it: with virtual stages one list each.
std::string recompute_text(const TrainJob& job) {
  const std::vector<int64_t>& list = job.recompute_layers_of;
  if (list.empty()) {
    return recompute_name(job.layout.recompute);
  }
  const auto pp = static_cast<size_t>(job.layout.pp);
  if (list.size() <= pp) {
    return fmt::format("[{}]", fmt::join(list, ", "));
  }
  std::string text;
  for (size_t begin = 0; begin < list.size(); begin += pp) {
    const auto first = list.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = list.begin() + static_cast<std::ptrdiff_t>(std::min(begin + pp, list.size()));
    text += fmt::format("{}[{}]", text.empty() ? "" : ", ", fmt::join(first, last, ", "));
  }
  return "[" + text + "]";
}

void compare_recompute(Changes& changes, const TrainJob& before, const TrainJob& after) {
  if (before.layout.recompute == after.layout.recompute &&
      before.recompute_layers == after.recompute_layers &&
      before.recompute_layers_of == after.recompute_layers_of) {
    return;
  }
  const bool megatron = before.stack == Stack::kMegatron || before.stack == Stack::kMindSpeed;
  const bool full = after.layout.recompute == Recompute::kFull;
  changes.add("recompute", recompute_text(before),
              full && megatron ? "full --recompute-method uniform --recompute-num-layers 1"
                               : recompute_text(after));
}

// MindFormers has no global batch: micro_batch_num makes it with stages, accumulation without.
// False if neither can.
bool compare_micro_batches(Changes& changes, const ReadJob& read, const TrainJob& after) {
  const auto stated = [&](const char* key) {
    const auto setting = read.settings.find(key);
    const auto value =
        setting == read.settings.end() ? std::nullopt : parse_integer(setting->second.value);
    return std::max<int64_t>(value.value_or(1), 1);
  };
  const TrainJob& before = read.job;
  const int64_t accumulation = stated("gradient_accumulation_steps");
  const int64_t micro_batches = stated("global_batch_size");
  const int64_t was = before.batch.num_microbatches(before.layout);
  const int64_t now = after.batch.num_microbatches(after.layout);
  const int64_t made = accumulation * (before.layout.pp > 1 ? micro_batches : 1);
  const int64_t interleave = std::max<int64_t>(was / made, 1);
  if (after.layout.pp > 1 && now % (interleave * accumulation) == 0) {
    changes.compare("global_batch_size", micro_batches, now / (interleave * accumulation));
    return true;
  }
  if (after.layout.pp == 1 && now % interleave == 0) {
    changes.compare("gradient_accumulation_steps", accumulation, now / interleave);
    return true;
  }
  return false;
}

}  // namespace

int64_t layers_per_virtual_stage(const ReadJob& read) {
  const auto setting = read.settings.find("vpp");
  const bool per_chunk = setting != read.settings.end() &&
                         setting->second.name.find("virtual") != std::string::npos &&
                         setting->second.name.find("layers") != std::string::npos;
  return per_chunk ? parse_integer(setting->second.value).value_or(0) : 0;
}

std::vector<ProposedChange> changed_settings(const ReadJob& read, const TrainJob& after) {
  const TrainJob& before = read.job;
  const bool megatron = before.stack == Stack::kMegatron || before.stack == Stack::kMindSpeed;
  const auto on_off = [](bool on) { return std::string(on ? "on" : "off"); };
  Changes changes(read);
  if (before.stack == Stack::kMindFormers) {  // for the others it follows from the world
    changes.compare("dp", before.layout.dp, after.layout.dp);
  }
  changes.compare("tp", before.layout.tp, after.layout.tp);
  changes.compare("pp", before.layout.pp, after.layout.pp);
  compare_virtual_stages(changes, read, after);
  changes.compare("cp", before.layout.cp, after.layout.cp);
  changes.compare("ep", before.layout.ep, after.layout.ep);
  if (before.etp != after.etp) {
    changes.add("etp", before.etp == 0 ? "absent" : std::to_string(before.etp),
                std::to_string(after.etp));
  }
  if (before.layout.sp != after.layout.sp && !(after.layout.tp == 1 && megatron)) {
    changes.add("sp", on_off(before.layout.sp), on_off(after.layout.sp));
  }
  if (before.layout.zero != after.layout.zero) {
    if (megatron) {
      changes.add("zero", on_off(before.layout.zero > 0), on_off(after.layout.zero > 0));
    } else {
      changes.compare("zero", before.layout.zero, after.layout.zero);
    }
  }
  compare_recompute(changes, before, after);
  changes.compare("micro_batch_size", before.batch.micro_batch_size, after.batch.micro_batch_size);
  if (before.stack != Stack::kMindFormers || !compare_micro_batches(changes, read, after)) {
    changes.compare("global_batch_size", before.batch.global_batch_size,
                    after.batch.global_batch_size);
  }
  changes.compare("seq_len", before.batch.seq_len, after.batch.seq_len);
  compare_stages(changes, read, after);
  if (before.offload_optimizer != after.offload_optimizer) {
    const auto device = [&](bool on) {
      return before.stack != Stack::kDeepSpeed ? on_off(on) : std::string(on ? "cpu" : "none");
    };
    changes.add("offload", device(before.offload_optimizer), device(after.offload_optimizer));
  }
  if (before.pool_bytes != after.pool_bytes) {
    changes.add("pool", fmt::format("{:g}GB", before.pool_bytes / kGiB),
                fmt::format("{:g}GB", after.pool_bytes / kGiB));
  }
  changes.compare("experts_per_token", before.model.moe.experts_per_token,
                  after.model.moe.experts_per_token);
  return changes.take();
}

}  // namespace plait
