// The groups of one rank. Everything that communicates gets this, or one of its groups, passed in.
#pragma once

#include <memory>

#include "comm/process_group.h"
#include "parallel/step_recorder.h"
#include "topology/layout.h"
#include "topology/mesh.h"

namespace plait {

class ParallelContext {
 public:
  // Collective over the world. Requires: layout.world_size() == world.size(). `world` must outlive
  // the context.
  ParallelContext(const Layout& layout, World& world);

  const Layout& layout() const { return layout_; }
  const Mesh& mesh() const { return mesh_; }
  World& world() const { return world_; }
  Device& device() const { return world_.device(); }
  int rank() const { return world_.rank(); }
  int coordinate(Axis axis) const { return mesh_.coordinate(world_.rank(), axis); }

  ProcessGroup& tp() const { return *tp_; }
  ProcessGroup& dp() const { return *dp_; }
  // Ranks along the pp axis, in stage order; one group per direction, so that transfers of both
  // match independently.
  ProcessGroup& pp_forward() const { return *pp_forward_; }
  ProcessGroup& pp_backward() const { return *pp_backward_; }
  // First and last pipeline stage, which share a tied embedding; size 1 on other stages.
  ProcessGroup& embedding() const { return *embedding_; }
  // Every rank.
  ProcessGroup& all() const { return *all_; }
  // Where this rank's time goes; fed by all groups above.
  StepRecorder& recorder() const { return *recorder_; }

 private:
  Layout layout_;
  Mesh mesh_;
  World& world_;
  std::unique_ptr<StepRecorder> recorder_;
  std::unique_ptr<ProcessGroup> tp_, dp_, pp_forward_, pp_backward_, embedding_, all_;
};

}  // namespace plait
