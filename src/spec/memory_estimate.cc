#include "spec/memory_estimate.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "spec/memory_walk.h"
#include "spec/parameter_table.h"
#include "spec/schedule.h"

namespace plait {
namespace {

constexpr int64_t kF32Bytes = dtype_size(DType::kF32);

// Weights, gradients and optimizer, as ParameterStore, ShardedAdamw and make_rope_table allocate
// them.
StageMemory count_states(const MemoryRequest& request, const std::vector<ParamSpec>& table,
                         int stage) {
  const FlatLayout flat =
      make_flat_layout(table, request.model, request.layout,
                       {.pipeline_stage = stage, .bucket_count = request.bucket_count});
  StageMemory memory;
  memory.stage = stage;
  memory.elements = flat.count;

  const int64_t weight_bytes = dtype_size(request.compute_dtype);
  const int64_t rope = request.batch.seq_len * request.model.head_dim * kF32Bytes;
  memory.weights = {flat.count * weight_bytes + rope,
                    fmt::format("computed from the parameter table: {} elements x {} B, and {} B "
                                "of rotary tables",
                                flat.count, weight_bytes, rope)};
  memory.gradients = {
      flat.count * kF32Bytes,
      fmt::format("computed from the parameter table: {} elements x {} B", flat.count, kF32Bytes)};

  const int parts = request.layout.zero >= 1 ? request.layout.dp : 1;
  int64_t owned = 0;
  for (const Bucket& bucket : flat.buckets) {
    owned += (bucket.end - bucket.begin) / parts;
  }
  const bool master = request.compute_dtype != DType::kF32;
  const int64_t state_bytes = kF32Bytes * (master ? 3 : 2);
  memory.optimizer = {
      owned * state_bytes,
      fmt::format("computed from the parameter table: {} elements x {} B ({}two moments), {}",
                  owned, state_bytes, master ? "master and " : "",
                  parts > 1 ? fmt::format("1/{} of the stage under ZeRO-1", parts)
                            : std::string("not sharded"))};
  return memory;
}

}  // namespace

const StageMemory& MemoryEstimate::largest() const {
  CHECK(!stages.empty());
  return *std::ranges::max_element(stages, {},
                                   [](const StageMemory& stage) { return stage.total.bytes; });
}

MemoryEstimate estimate_memory(const MemoryRequest& request) {
  const Layout& layout = request.layout;
  const std::vector<ParamSpec> table = make_parameter_table(
      request.model, {.tp = layout.tp, .vocab_multiple = request.vocab_multiple});
  const std::vector<std::vector<Action>> schedule =
      make_schedule({.kind = layout.schedule,
                     .pp = layout.pp,
                     .vpp = layout.vpp,
                     .num_microbatches = static_cast<int>(request.batch.num_microbatches(layout))});
  MemoryEstimate estimate;
  std::vector<MemoryCount> late;
  for (int stage = 0; stage < layout.pp; ++stage) {
    estimate.stages.push_back(count_states(request, table, stage));
    const StageMemory& memory = estimate.stages.back();
    late.emplace_back();
    late.back().add(MemoryPart::kStates,
                    memory.weights.bytes + memory.gradients.bytes + memory.optimizer.bytes);
  }
  std::vector<MemoryCount> prompt = late;
  walk_step(request, schedule, SendAssumption::kTakenLate, late);
  walk_step(request, schedule, SendAssumption::kTakenAtOnce, prompt);
  for (size_t s = 0; s < late.size(); ++s) {
    StageMemory& memory = estimate.stages[s];
    memory.max_in_flight = max_in_flight_total(schedule[s]);
    const int64_t activations = late[s].peak(MemoryPart::kActivations);
    memory.late_send_bytes = activations - prompt[s].peak(MemoryPart::kActivations);
    memory.activations = {
        activations,
        fmt::format("computed from the activation table and the schedule: at most {} forwards of "
                    "a chunk await their backward",
                    memory.max_in_flight)};
    memory.comm = {0, "computed: collectives and transfers work in place on the tensors counted"};
    memory.workspace = {late[s].peak(MemoryPart::kWorkspace),
                        "computed from the shapes of the largest operator; kernels' own scratch "
                        "outside the device is not counted"};
    memory.total = {late[s].total_peak(),
                    "computed: peak of the sum over one step, at most the sum of the peaks"};
  }
  return estimate;
}

}  // namespace plait
