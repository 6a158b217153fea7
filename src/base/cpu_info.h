// What this host's CPU can do, read once at run time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait {

struct CpuInfo {
  bool avx2 = false;         // AVX2 and FMA
  bool avx512 = false;       // F, BW, DQ, VL
  bool avx512_bf16 = false;  // and VNNI, which every CPU with it has
  bool neon = false;
  // Names of the sets above that are present.
  std::vector<std::string> names() const;
};

// `PLAIT_CPU_ISA=plain|avx2|avx512` caps what is reported, so that a slower path can be tested on a
// faster machine.
const CpuInfo& cpu_info();

// Whether code for this set ("avx2", "avx512", "avx512_bf16", "neon") may be chosen unasked. Code
// that has not run on its hardware yet, "neon", may not, until `PLAIT_CPU_ENABLE=neon`. Says
// nothing about this CPU: see cpu_info().
bool cpu_path_enabled(const std::string& name);

// Cores this process may run on (affinity and cgroup quota respected), at least 1.
int available_cores();

// Bytes of memory this process may still take: the smaller of free host memory and the room inside
// the cgroup limit.
int64_t available_memory_bytes();

}  // namespace plait
