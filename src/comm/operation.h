// One collective with its arguments as the transports carry it: resolved to host addresses and
// checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "comm/op_state.h"
#include "comm/process_group.h"

namespace plait {

struct Operation {
  OpKind kind = OpKind::kNone;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  int64_t count = 0;  // elements; bytes where the operation has no dtype
  std::byte* input = nullptr;
  std::byte* output = nullptr;

  int64_t element_bytes() const {
    const bool is_typed =
        kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter || kind == OpKind::kAllGather;
    return is_typed ? dtype_size(dtype) : 1;
  }
  // Bytes of one rank's share (of the whole for all_reduce and broadcast).
  int64_t bytes() const { return count * element_bytes(); }

  // What must be the same on every rank, in one word.
  uint64_t signature() const {
    return static_cast<uint64_t>(kind) | (static_cast<uint64_t>(dtype) << 4) |
           (static_cast<uint64_t>(op) << 8) | (static_cast<uint64_t>(root) << 10) |
           (static_cast<uint64_t>(count) << 24);
  }
};

// An operation in place has one buffer.
inline void copy_unless_same(std::byte* destination, const std::byte* source, int64_t bytes) {
  if (bytes > 0 && destination != source) {
    std::memmove(destination, source, static_cast<size_t>(bytes));
  }
}

// "all_reduce of 1000 f32 (sum)", from Operation::signature().
std::string describe_signature(uint64_t signature);

// Checked and resolved. Error: a CHECK for null buffers, negative sizes and roots outside the
// group.
Operation make_operation(const AllReduceOptions& options, Device& device);
Operation make_operation(const ReduceScatterOptions& options, Device& device);
Operation make_operation(const AllGatherOptions& options, Device& device);
Operation make_operation(const BroadcastOptions& options, Device& device);
Operation make_operation(const AllToAllOptions& options, Device& device);

}  // namespace plait
