#include "serve/replica_world.h"

#include "base/error.h"

namespace plait {

ReplicaWorld::ReplicaWorld(World& world, int size) : world_(world), size_(size) {
  CHECK_EQ(world.size() % size, 0);
}

std::unique_ptr<ProcessGroup> ReplicaWorld::create_group(
    const std::string& name, const std::vector<std::vector<int>>& partition) {
  std::vector<std::vector<int>> everywhere;
  for (int first = 0; first < world_.size(); first += size_) {
    for (const std::vector<int>& group : partition) {
      std::vector<int>& shifted = everywhere.emplace_back(group);
      for (int& rank : shifted) {
        rank += first;
      }
    }
  }
  return world_.create_group(name, everywhere);
}

}  // namespace plait
