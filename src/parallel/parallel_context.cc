#include "parallel/parallel_context.h"

#include <numeric>

#include "base/error.h"
#include "parallel/timed_group.h"

namespace plait {

ParallelContext::ParallelContext(const Layout& layout, World& world)
    : layout_(layout),
      mesh_(layout.mesh()),
      world_(world),
      recorder_(std::make_unique<StepRecorder>()) {
  CHECK_EQ(layout.world_size(), world.size());
  const auto create = [&](const std::string& name, Wait wait,
                          const std::vector<std::vector<int>>& partition) {
    return make_timed_group(world.create_group(name, partition), wait, *recorder_);
  };
  tp_ = create("tp", Wait::kTensor, mesh_.groups(Axis::kTp));
  dp_ = create("dp", Wait::kData, mesh_.groups(Axis::kDp));
  const std::vector<std::vector<int>> pipelines = mesh_.groups(Axis::kPp);
  pp_forward_ = create("pp_forward", Wait::kPipeline, pipelines);
  pp_backward_ = create("pp_backward", Wait::kPipeline, pipelines);
  std::vector<std::vector<int>> ends;
  if (layout.pp > 1) {
    for (const std::vector<int>& pipeline : pipelines) {
      ends.push_back({pipeline.front(), pipeline.back()});
    }
  }
  embedding_ = create("embedding", Wait::kData, ends);
  std::vector<int> everyone(static_cast<size_t>(world.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  all_ = create("world", Wait::kControl, {everyone});
}

}  // namespace plait
