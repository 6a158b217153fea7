#include "checkpoint/reshard.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace plait {
namespace {

// Calls visit(part_offset, target_offset, count) for runs that are contiguous in both: elements
// from the part's first and from the target's first.
template <typename Visit>
void visit_overlap(const ShardPart& part, const Shard& target, const Visit& visit) {
  const Shard& source = part.shard;
  const int64_t row_begin = std::max(source.row_begin, target.row_begin);
  const int64_t row_end = std::min(source.row_begin + source.rows, target.row_begin + target.rows);
  const int64_t col_begin = std::max(source.col_begin, target.col_begin);
  const int64_t col_end = std::min(source.col_begin + source.cols, target.col_begin + target.cols);
  if (row_begin >= row_end || col_begin >= col_end) {
    return;
  }
  // Equal columns: all rows are one run.
  const bool whole_rows = source.cols == target.cols && source.col_begin == target.col_begin;
  const int64_t run_rows = whole_rows ? row_end - row_begin : 1;
  const int64_t run = run_rows * (col_end - col_begin);
  for (int64_t row = row_begin; row < row_end; row += run_rows) {
    const int64_t first = (row - source.row_begin) * source.cols + col_begin - source.col_begin;
    const int64_t begin = std::max(first, part.begin);
    const int64_t end = std::min(first + run, part.end);
    if (begin < end) {
      const int64_t place = (row - target.row_begin) * target.cols + col_begin - target.col_begin;
      visit(begin - part.begin, place + begin - first, end - begin);
    }
  }
}

}  // namespace

int64_t count_overlap(const ShardPart& part, const Shard& target) {
  int64_t total = 0;
  visit_overlap(part, target, [&](int64_t, int64_t, int64_t count) { total += count; });
  return total;
}

int64_t copy_overlap(const ShardPart& part, std::span<const std::byte> data, const Shard& target,
                     std::span<float> out) {
  constexpr int64_t kElement = sizeof(float);
  CHECK_EQ(static_cast<int64_t>(data.size()), part.count() * kElement);
  CHECK_GE(static_cast<int64_t>(out.size()), target.count());
  int64_t total = 0;
  visit_overlap(part, target, [&](int64_t from, int64_t to, int64_t count) {
    std::memcpy(out.data() + to, data.data() + from * kElement,
                static_cast<size_t>(count * kElement));
    total += count;
  });
  return total;
}

RowCover covering_rows(const ShardPart& part) {
  RowCover cover{.shard = part.shard};
  const int64_t cols = part.shard.cols;
  const int64_t first = part.begin / cols;
  cover.shard.row_begin += first;
  cover.shard.rows = (part.end + cols - 1) / cols - first;
  cover.skip = part.begin - first * cols;
  return cover;
}

std::vector<StatePart> state_parts(const FlatLayout& flat, std::span<const OwnedRange> owned) {
  std::vector<StatePart> parts;
  for (const OwnedRange& range : owned) {
    for (const LocalParam& param : flat.params) {
      const int64_t begin = std::max(range.flat_begin, param.offset);
      const int64_t end =
          std::min(range.flat_begin + range.count, param.offset + param.shard.count());
      if (begin < end) {
        parts.push_back({param.spec_index,
                         {param.shard, begin - param.offset, end - param.offset},
                         range.shard_begin + begin - range.flat_begin});
      }
    }
  }
  return parts;
}

}  // namespace plait
