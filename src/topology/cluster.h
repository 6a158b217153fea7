// Hardware as the planner sees it: chips, links and servers, each figure with its source.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace plait {

enum class Provenance : uint8_t { kMeasured, kFitted, kDatasheet, kAssumed };
const char* provenance_name(Provenance provenance);  // "measured", "fitted", ...

// A figure and where it comes from.
struct Sourced {
  double value = 0;
  Provenance provenance = Provenance::kAssumed;
  std::string source;  // document, table or measurement
};

struct Chip {
  // What frameworks may use.
  double usable_bytes() const { return memory_bytes.value - reserve_bytes.value; }
  // FLOP/s of matrix products in that precision.
  double peak(DType dtype) const {
    return dtype == DType::kF32 ? peak_f32.value : peak_16bit.value;
  }

  std::string name;          // "910B3"
  bool bf16 = true;          // false: fp16 alone (V100, 310P)
  Sourced memory_bytes;      // as npu-smi or nvidia-smi shows it
  Sourced reserve_bytes;     // never in a framework's counters: context, driver, libraries
  Sourced peak_16bit;        // FLOP/s of dense bf16 or fp16 matrix products
  Sourced peak_f32;          // FLOP/s of f32 matrix products
  Sourced memory_bandwidth;  // bytes/s
  // Share of the peak that a large product reaches, and the work (FLOP) at which half of that is
  // reached: efficiency(f) = gemm_efficiency * f / (f + gemm_half_flops).
  Sourced gemm_efficiency;
  Sourced gemm_half_flops;
  // bytes/s at which a product's weight (or its gradient) is brought into the form and the place
  // where it is multiplied, on top of that: what makes few rows slow on a CPU. 0: not told apart.
  Sourced gemm_weight_bandwidth;
  Sourced attention_efficiency;  // share of the peak, flash attention
  Sourced memory_efficiency;     // share of memory_bandwidth of large elementwise kernels
  Sourced launch_s;              // host time of one kernel, hidden where the device is busy
  // bytes/s over arrays far larger than the caches (a fused optimizer step); 0: not told.
  Sourced stream_bandwidth;
};

// One level of the network between devices.
struct Link {
  Sourced bandwidth;   // bytes/s a device sends (one direction) when the whole domain communicates
  Sourced latency_s;   // of one step of a collective
  Sourced efficiency;  // share of `bandwidth` that large collectives reach
  // True: a full mesh of point-to-point links: a group of g among n devices has (g - 1) / (n - 1)
  // of the bandwidth (HCCS of the 910B). False: a switch, each device has all of it.
  bool full_mesh = false;
  Sourced half_bytes;  // message size at which half of the efficiency is reached
};

struct Cluster {
  std::string name;
  Chip chip;
  int devices_per_server = 8;
  int servers = 1;
  // Ranks that compute on the cores of their server: its cores (0: every device has its own), and
  // the threads of a rank, for which the chip's figures hold. Ranks with more threads than cores
  // take turns.
  int cores = 0;
  int threads_per_rank = 1;
  // bytes/s of stream_bandwidth that the ranks of a server reach together; 0: each its own.
  Sourced host_bandwidth;
  // Share of the chip's speed that a rank keeps while all cores of its server compute; else 1.
  Sourced crowded_share;
  Link intra;  // inside a server
  Link inter;  // between servers, per device
  // Factor on inter bandwidth for collectives that span that many servers or more (congestion).
  Sourced congestion;
  // Relative half-width of the interval of a predicted step time: four of five measured runs lie
  // inside.
  Sourced uncertainty;

  int devices() const { return devices_per_server * servers; }
  // Share of the time that a rank has a core for each of its threads: 1 unless ranks take turns.
  double core_share() const;
  // Share of the chip's speed that a rank with its cores to itself keeps beside the other ranks:
  // from 1 alone down to crowded_share.
  double speed_share() const;
  // Cores that no rank computes on.
  int free_cores() const { return std::max(0, cores - devices_per_server * threads_per_rank); }
};

// Names of catalog/clusters.toml, built in, in order.
std::vector<std::string> cluster_names();

// A catalogue name in any case ("910b3"), one with a number of servers behind an x ("910b3x16": 16
// servers of 8), or a TOML file that describes one cluster (docs/planning.md; a name of the
// catalogue wins over a file in the working directory). Errors: kNotFound with the nearest name;
// kCorruptData naming file, line and key; kInvalidArgument for more servers than 1,000,000 devices
// make, or several where no link between servers is described.
Cluster load_cluster(const std::string& name_or_file);

// The same with the number of devices set: whole servers, or as few servers as have an equal part
// each (where a full mesh then has only the links among them), or, where ranks share cores, as many
// ranks on one server as wanted. Errors: kInvalidArgument.
Cluster with_devices(Cluster cluster, int devices);

}  // namespace plait
