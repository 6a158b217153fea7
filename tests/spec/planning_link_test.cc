// Planning needs no device and no transport: this program links spec/, topology/ and base/ alone.
#include <cstdio>

#include "base/error.h"
#include "spec/memory_estimate.h"
#include "spec/parameter_table.h"
#include "spec/schedule.h"
#include "spec/validate.h"

namespace plait {
namespace {

int plan() {
  RunShape run;
  run.model.vocab_size = 50304;
  run.model.hidden_size = 768;
  run.model.ffn_hidden_size = 2048;
  run.model.num_layers = 12;
  run.model.num_heads = run.model.num_kv_heads = 12;
  run.model.head_dim = 64;
  run.model.tie_word_embeddings = true;
  run.layout = parse_layout("dp2.tp2.pp2.sp.zero1");
  run.batch = {.global_batch_size = 16, .micro_batch_size = 2, .seq_len = 64};
  run.world_size = 8;
  check_run(run);
  const auto schedule = make_schedule({.pp = run.layout.pp, .num_microbatches = 4});
  const auto table = make_parameter_table(run.model, {.tp = run.layout.tp});
  const FlatLayout flat = make_flat_layout(table, run.model, run.layout, {});
  const MemoryEstimate estimate =
      estimate_memory({.model = run.model, .layout = run.layout, .batch = run.batch});
  for (const StageMemory& stage : estimate.stages) {
    std::printf("stage %d: %lld bytes at the peak\n", stage.stage,
                static_cast<long long>(stage.total.bytes));
  }
  return schedule.size() == 2 && flat.count == estimate.stages.front().elements ? 0 : 1;
}

}  // namespace
}  // namespace plait

int main() {
  try {
    return plait::plan();
  } catch (const plait::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
