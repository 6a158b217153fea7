// The mesh of ranks: pure arithmetic between a rank and its coordinates.
//
// Order of axes, fastest first: tp, cp, dp, pp (Megatron's default). ep divides dp and is reserved.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plait {

enum class Axis : uint8_t { kTp, kCp, kDp, kPp };
constexpr int kNumAxes = 4;

// "tp", "cp", "dp", "pp".
const char* axis_name(Axis axis);

class Mesh {
 public:
  struct Degrees {
    int tp = 1;
    int cp = 1;
    int dp = 1;
    int pp = 1;
  };

  explicit Mesh(const Degrees& degrees);

  int world_size() const { return world_size_; }
  int degree(Axis axis) const { return degrees_[static_cast<size_t>(axis)]; }

  // Place of `rank` on `axis`, in [0, degree).
  int coordinate(int rank, Axis axis) const;
  // The rank that differs from `rank` only in its coordinate on `axis`.
  int with_coordinate(int rank, Axis axis, int coordinate) const;
  // Ranks along `axis` through `rank`, in coordinate order.
  std::vector<int> group(int rank, Axis axis) const;
  // All groups along `axis`: a partition of the world.
  std::vector<std::vector<int>> groups(Axis axis) const;

 private:
  int stride(Axis axis) const;
  std::array<int, kNumAxes> degrees_;
  int world_size_;
};

}  // namespace plait
