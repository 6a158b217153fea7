// Which instruction sets the fast kernels may use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait::cpu::fast {

// Applies cpu_info(), and so PLAIT_CPU_ISA, to Highway's choice. Idempotent, thread-safe;
// process-wide by Highway's nature.
void limit_isa();

// The sets that the kernels can run with here, best first ("AVX2", "SCALAR", ...), for tests.
std::vector<std::string> isa_names();
// Makes every fast kernel use one of isa_names(), or the best again with "". Not thread-safe.
void force_isa(const std::string& name);

}  // namespace plait::cpu::fast
