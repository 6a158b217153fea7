// Resharding arithmetic: which elements two shards of a parameter share, and which parts of the
// parameters a rank owns. Pure functions over spec/parameter_table.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/zero/sharded_adamw.h"
#include "spec/parameter_table.h"

namespace plait {

// Elements [begin, end) of a shard in row-major order.
struct ShardPart {
  Shard shard;
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

// Elements of `part` inside `target`.
int64_t count_overlap(const ShardPart& part, const Shard& target);

// Copies the elements of `part` that lie in `target` to their places in `out`, which holds `target`
// row-major; returns their number. `data` holds the part's f32 values and may stand at any address.
// Requires: data.size() == 4 * part.count(), out.size() >= target.count().
int64_t copy_overlap(const ShardPart& part, std::span<const std::byte> data, const Shard& target,
                     std::span<float> out);

// The whole rows of the part's shard that hold the part: a shard for whose row-major values the
// part starts at `skip`.
struct RowCover {
  Shard shard;
  int64_t skip = 0;
};
RowCover covering_rows(const ShardPart& part);

// Where one rank's optimizer state of one parameter belongs.
struct StatePart {
  int spec_index = 0;  // into the table
  ShardPart part;
  int64_t state_offset = 0;  // of its first element in the optimizer's state
};
// Everything that a rank's optimizer state holds but padding: also what other ranks hold too
// (replicated parameters, tied copies), which owned_pieces() leaves out.
std::vector<StatePart> state_parts(const FlatLayout& flat, std::span<const OwnedRange> owned);

}  // namespace plait
