// Values that show where each element came from, so that a swapped, stale or missing block is seen.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "comm_test/sweep.h"

namespace plait {

// What one rank hands in, and what it must get.
class TestPattern {
 public:
  // `count`: elements of one block: of the whole buffer for all_reduce and broadcast, of one rank's
  // part for the others.
  TestPattern(TestOp op, DType dtype, ReduceOp reduce, int rank, int ranks, int root);

  // False where sums leave the exact range of the type.
  bool checkable() const { return limit_ >= 2; }
  std::vector<std::byte> input(int64_t count) const;
  // Compares with what the rank must get; -1: all right, else the first wrong index. Adds to
  // `wrong`.
  int64_t check(const std::vector<std::byte>& output, int64_t count, int64_t* wrong) const;

  // Blocks of `count` elements that go in and come out.
  int64_t input_blocks() const;
  int64_t output_blocks() const;

 private:
  int64_t element(int source, int destination, int64_t index) const;
  int64_t expected(int64_t index, int64_t count) const;

  TestOp op_;
  DType dtype_;
  ReduceOp reduce_;
  int rank_, ranks_, root_;
  int64_t limit_;  // values are below
};

}  // namespace plait
