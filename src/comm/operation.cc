#include "comm/operation.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plait {
namespace {

std::byte* resolve(Device& device, DevicePtr ptr, int64_t count) {
  CHECK_GE(count, 0);
  if (count == 0) {
    return nullptr;
  }
  CHECK(static_cast<bool>(ptr));
  std::byte* address = device.host_view(ptr);
  if (address == nullptr) {
    throw_error(ErrorCode::kUnavailable,
                "the memory of device {} is out of the host's reach, which comm/local and comm/mpi "
                "need; use the device's own transport",
                device.name());
  }
  return address;
}

}  // namespace

std::string describe_signature(uint64_t signature) {
  Operation o;
  o.kind = static_cast<OpKind>(signature & 0xfU);
  o.dtype = static_cast<DType>((signature >> 4) & 0xfU);
  o.op = static_cast<ReduceOp>((signature >> 8) & 0x3U);
  o.root = static_cast<int>((signature >> 10) & 0x3fffU);
  o.count = static_cast<int64_t>(signature >> 24);
  const char* name = op_kind_name(o.kind);
  switch (o.kind) {
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
      return fmt::format("{} of {} {} ({})", name, o.count, dtype_name(o.dtype),
                         o.op == ReduceOp::kSum ? "sum" : "max");
    case OpKind::kAllGather:
      return fmt::format("{} of {} {}", name, o.count, dtype_name(o.dtype));
    case OpKind::kBroadcast:
      return fmt::format("{} of {} B from {}", name, o.count, o.root);
    case OpKind::kAllToAll:
      return fmt::format("{} of {} B", name, o.count);
    default:
      return name;
  }
}

Operation make_operation(const AllReduceOptions& options, Device& device) {
  Operation o;
  o.kind = OpKind::kAllReduce;
  o.dtype = options.dtype;
  o.op = options.op;
  o.count = options.count;
  o.input = o.output = resolve(device, options.buffer, options.count);
  return o;
}

Operation make_operation(const ReduceScatterOptions& options, Device& device) {
  Operation o;
  o.kind = OpKind::kReduceScatter;
  o.dtype = options.dtype;
  o.count = options.count;
  o.input = resolve(device, options.input, options.count);
  o.output = resolve(device, options.output, options.count);
  return o;
}

Operation make_operation(const AllGatherOptions& options, Device& device) {
  Operation o;
  o.kind = OpKind::kAllGather;
  o.dtype = options.dtype;
  o.count = options.count;
  o.input = resolve(device, options.input, options.count);
  o.output = resolve(device, options.output, options.count);
  return o;
}

Operation make_operation(const BroadcastOptions& options, Device& device) {
  Operation o;
  o.kind = OpKind::kBroadcast;
  o.root = options.root;
  o.count = options.bytes;
  o.input = o.output = resolve(device, options.buffer, options.bytes);
  return o;
}

Operation make_operation(const AllToAllOptions& options, Device& device) {
  Operation o;
  o.kind = OpKind::kAllToAll;
  o.count = options.bytes;
  o.input = resolve(device, options.input, options.bytes);
  o.output = resolve(device, options.output, options.bytes);
  return o;
}

}  // namespace plait
