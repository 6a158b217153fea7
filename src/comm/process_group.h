// Collectives and point-to-point transfers between the ranks of one group, on device memory.
//
// Collective: every rank of the group must call the same operations in the same order with the same
// sizes. A group is used by one host thread of its rank at a time. After an error the group is
// dead: every later call throws.
//
// Order with the device: an operation starts after the work that was queued on the device's stream
// before the call. With `async` false the call returns when the result is there; with `async` true
// it returns at once, a progress thread of the group does the transfer while the host thread
// computes, and Work::wait() completes it. Async operations of one group run in call order; buffers
// must stay alive and untouched until wait().
//
// Reductions add in rank order, in f32 for 16-bit types: the result is the same on every rank, in
// every run and for every transport. One exception: f32 and integer reductions of more than 64 KB
// by ranks of several hosts (equally many, above one, and neighbours on each) add within the hosts
// first: the same on every rank and in every run, but not the bits of the same ranks on one host.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/work.h"
#include "device/device.h"

namespace plait {

enum class ReduceOp : uint8_t { kSum, kMax };

// In place.
struct AllReduceOptions {
  DevicePtr buffer;
  int64_t count = 0;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  bool async = false;
};

// Rank r receives the sum of every rank's r-th part of `input` (size * count elements) in `output`
// (count elements). output may be the rank's own part of input.
struct ReduceScatterOptions {
  DevicePtr input, output;
  int64_t count = 0;  // per rank
  DType dtype = DType::kF32;
  bool async = false;
};

// Part r of `output` (size * count elements) becomes rank r's `input` (count elements). input may
// be the rank's own part of output.
struct AllGatherOptions {
  DevicePtr input, output;
  int64_t count = 0;  // per rank
  DType dtype = DType::kF32;
  bool async = false;
};

struct BroadcastOptions {
  DevicePtr buffer;
  int64_t bytes = 0;
  int root = 0;  // group rank
  bool async = false;
};

// Part j of rank i's input becomes part i of rank j's output; not in place.
struct AllToAllOptions {
  DevicePtr input, output;
  int64_t bytes = 0;  // per pair
  bool async = false;
};

// Transfers between two ranks match in the order of their calls, per direction and pair. An async
// send never waits for its receive before returning.
struct TransferOptions {
  DevicePtr buffer;
  int64_t bytes = 0;
  int peer = 0;  // group rank
  bool async = false;
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // For messages: "tp", "dp", ...
  virtual const std::string& name() const = 0;

  virtual Work all_reduce(const AllReduceOptions& options) = 0;
  virtual Work reduce_scatter(const ReduceScatterOptions& options) = 0;
  virtual Work all_gather(const AllGatherOptions& options) = 0;
  virtual Work broadcast(const BroadcastOptions& options) = 0;
  virtual Work all_to_all(const AllToAllOptions& options) = 0;
  virtual Work send(const TransferOptions& options) = 0;
  virtual Work recv(const TransferOptions& options) = 0;
  virtual void barrier() = 0;

  // Small control data between hosts, outside device memory: every rank's bytes, in rank order.
  // Collective. Bounded by host memory; meant for metadata, metrics and checkpoints of small
  // models.
  virtual std::vector<std::string> gather_bytes(const std::string& mine) = 0;
};

struct CommOptions {
  double deadline_s = 30;  // limit of every wait for a peer
};

// All ranks of a job, seen from one rank.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Device& device() = 0;

  // Collective over the whole world, and every rank passes the same partition of a subset of the
  // ranks into disjoint groups; returns the group of this rank, or a group of size 1 when it is in
  // none. `name` appears in messages and traces.
  virtual std::unique_ptr<ProcessGroup> create_group(
      const std::string& name, const std::vector<std::vector<int>>& partition) = 0;

  // Ends the job on every rank: peers that wait, now or later, throw kCancelled with `reason`, and
  // so does run_ranks() everywhere. The caller should return from its body. Not collective;
  // thread-safe.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace plait
