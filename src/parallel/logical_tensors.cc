#include "parallel/logical_tensors.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace plait {
namespace {

// What travels for one piece, before its values.
struct PieceHeader {
  int64_t spec_index = 0;
  Shard shard;
  int64_t begin = 0, end = 0;
};

void place(const ParamSpec& spec, const PieceHeader& header, const float* values,
           std::vector<float>& whole) {
  for (int64_t i = header.begin; i < header.end; ++i) {
    const int64_t row = header.shard.row_begin + i / header.shard.cols;
    const int64_t col = header.shard.col_begin + i % header.shard.cols;
    if (row < spec.shape[0]) {
      whole[static_cast<size_t>(row * spec.cols() + col)] = values[i - header.begin];
    }
  }
}

}  // namespace

std::vector<ParamPiece> owned_pieces(const ParameterStore& store, const ShardedAdamw& optimizer,
                                     const ParallelContext& context) {
  std::vector<ParamPiece> pieces;
  if (!optimizer.sharded() && context.dp().rank() != 0) {
    return pieces;
  }
  for (const OwnedRange& owned : optimizer.owned()) {
    for (const LocalParam& param : store.flat().params) {
      const ParamSpec& spec = store.table()[static_cast<size_t>(param.spec_index)];
      const bool replica = spec.placement == Placement::kReplicated && context.tp().rank() != 0;
      const int64_t begin = std::max(owned.flat_begin, param.offset);
      const int64_t end =
          std::min(owned.flat_begin + owned.count, param.offset + param.shard.count());
      if (begin >= end || param.tied_copy || replica) {
        continue;
      }
      pieces.push_back({&spec, param.shard, begin - param.offset, end - param.offset, begin,
                        owned.shard_begin + begin - owned.flat_begin});
    }
  }
  return pieces;
}

std::map<std::string, std::vector<float>> gather_logical(LogicalKind kind, ParameterStore& store,
                                                         ShardedAdamw& optimizer,
                                                         const ParallelContext& context) {
  optimizer.wait_all();
  Stream& stream = store.device().stream();
  std::string mine;
  for (const ParamPiece& piece : owned_pieces(store, optimizer, context)) {
    const PieceHeader header{piece.spec - store.table().data(), piece.shard, piece.begin,
                             piece.end};
    const int64_t bytes = (piece.end - piece.begin) * dtype_size(DType::kF32);
    const size_t at = mine.size();
    mine.resize(at + sizeof(header) + static_cast<size_t>(bytes));
    std::memcpy(mine.data() + at, &header, sizeof(header));
    const Tensor source =
        kind == LogicalKind::kGradient
            ? store.grads().view(piece.flat_begin, {piece.end - piece.begin})
            : optimizer.master({piece.flat_begin, piece.shard_begin, piece.end - piece.begin});
    stream.copy_to_host(mine.data() + at + sizeof(header), source.ptr(), bytes);
    stream.synchronize();
  }
  std::map<std::string, std::vector<float>> result;
  for (const ParamSpec& spec : store.table()) {
    result[spec.name].resize(static_cast<size_t>(spec.count()));
  }
  for (const std::string& bytes : context.all().gather_bytes(mine)) {
    for (size_t at = 0; at < bytes.size();) {
      PieceHeader header;
      CHECK_LE(at + sizeof(header), bytes.size());
      std::memcpy(&header, bytes.data() + at, sizeof(header));
      at += sizeof(header);
      std::vector<float> values(static_cast<size_t>(header.end - header.begin));
      std::memcpy(values.data(), bytes.data() + at, values.size() * sizeof(float));
      at += values.size() * sizeof(float);
      const ParamSpec& spec = store.table()[static_cast<size_t>(header.spec_index)];
      place(spec, header, values.data(), result[spec.name]);
    }
  }
  return result;
}

}  // namespace plait
