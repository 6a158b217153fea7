#include "parallel/parallel_context.h"

#include <numeric>

#include "base/error.h"

namespace plait {

ParallelContext::ParallelContext(const Layout& layout, World& world)
    : layout_(layout), mesh_(layout.mesh()), world_(world) {
  CHECK_EQ(layout.world_size(), world.size());
  tp_ = world.create_group("tp", mesh_.groups(Axis::kTp));
  dp_ = world.create_group("dp", mesh_.groups(Axis::kDp));
  const std::vector<std::vector<int>> pipelines = mesh_.groups(Axis::kPp);
  pp_forward_ = world.create_group("pp_forward", pipelines);
  pp_backward_ = world.create_group("pp_backward", pipelines);
  std::vector<std::vector<int>> ends;
  if (layout.pp > 1) {
    for (const std::vector<int>& pipeline : pipelines) {
      ends.push_back({pipeline.front(), pipeline.back()});
    }
  }
  embedding_ = world.create_group("embedding", ends);
  std::vector<int> everyone(static_cast<size_t>(world.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  all_ = world.create_group("world", {everyone});
}

}  // namespace plait
