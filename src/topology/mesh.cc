#include "topology/mesh.h"

#include <limits>

#include "base/error.h"

namespace plait {

const char* axis_name(Axis axis) {
  static constexpr std::array kNames = {"tp", "cp", "dp", "pp"};
  return kNames[static_cast<size_t>(axis)];
}

Mesh::Mesh(const Degrees& degrees)
    : degrees_{degrees.tp, degrees.cp, degrees.dp, degrees.pp}, world_size_(1) {
  int64_t product = 1;
  for (const int degree : degrees_) {
    CHECK_GE(degree, 1);
    product *= degree;
    CHECK_LE(product, std::numeric_limits<int>::max());
  }
  world_size_ = static_cast<int>(product);
}

int Mesh::stride(Axis axis) const {
  int stride = 1;
  for (size_t i = 0; i < static_cast<size_t>(axis); ++i) {
    stride *= degrees_[i];
  }
  return stride;
}

int Mesh::coordinate(int rank, Axis axis) const {
  CHECK(rank >= 0 && rank < world_size_);
  return rank / stride(axis) % degree(axis);
}

int Mesh::with_coordinate(int rank, Axis axis, int coordinate) const {
  CHECK(coordinate >= 0 && coordinate < degree(axis));
  return rank + (coordinate - this->coordinate(rank, axis)) * stride(axis);
}

std::vector<int> Mesh::group(int rank, Axis axis) const {
  std::vector<int> ranks;
  for (int i = 0; i < degree(axis); ++i) {
    ranks.push_back(with_coordinate(rank, axis, i));
  }
  return ranks;
}

std::vector<std::vector<int>> Mesh::groups(Axis axis) const {
  std::vector<std::vector<int>> result;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (coordinate(rank, axis) == 0) {
      result.push_back(group(rank, axis));
    }
  }
  return result;
}

}  // namespace plait
