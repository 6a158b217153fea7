// From the flat buffers of all ranks back to whole tensors under their HF names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/parallel_context.h"
#include "parallel/parameter_store.h"
#include "parallel/zero/sharded_adamw.h"

namespace plait {

// The part of one parameter that one rank answers for: elements [begin, end) of the row-major
// shard.
struct ParamPiece {
  const ParamSpec* spec = nullptr;
  Shard shard;
  int64_t begin = 0, end = 0;
  int64_t flat_begin = 0;   // of `begin` in the flat buffers
  int64_t shard_begin = 0;  // of `begin` in the optimizer's state
};

// Over all ranks every logical element is in exactly one piece: tied copies are left out, of the
// replicated parameters only tp rank 0 has pieces, and without ZeRO only dp rank 0.
std::vector<ParamPiece> owned_pieces(const ParameterStore& store, const ShardedAdamw& optimizer,
                                     const ParallelContext& context);

enum class LogicalKind : uint8_t { kMaster, kGradient };

// Every parameter whole (logical shape, row-major, padding dropped), on every rank: for tests and
// `verify`, not for models that do not fit one host. Collective over the world.
std::map<std::string, std::vector<float>> gather_logical(LogicalKind kind, ParameterStore& store,
                                                         ShardedAdamw& optimizer,
                                                         const ParallelContext& context);

}  // namespace plait
