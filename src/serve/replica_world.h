// The ranks of one dp replica as a world of their own: replica r of a world that is n times as
// large holds the ranks [r * size, (r + 1) * size). All replicas create the same groups in the same
// order, as ranks of one layout do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/process_group.h"

namespace plait {

class ReplicaWorld final : public World {
 public:
  // Requires: `size` divides the size of `world`, which must outlive this one.
  ReplicaWorld(World& world, int size);

  int rank() const override { return world_.rank() % size_; }
  int size() const override { return size_; }
  Device& device() override { return world_.device(); }
  // `partition` in ranks of the replica. Collective over all replicas.
  std::unique_ptr<ProcessGroup> create_group(
      const std::string& name, const std::vector<std::vector<int>>& partition) override;
  // Ends all replicas.
  void abort(const std::string& reason) override { world_.abort(reason); }

 private:
  World& world_;
  int size_;
};

}  // namespace plait
