// The instruction sets that the tests of serving run with: names for a test parameter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/cpu/serve/isa.h"

namespace plait::cpu::serve {

// See serve_emulated_*.cc.
const IsaKernels& isa_avx512_bf16_emulated();
const IsaKernels& isa_neon_emulated();

}  // namespace plait::cpu::serve

namespace plait::test {

inline size_t index(int64_t i) {
  return static_cast<size_t>(i);
}

// Those of this CPU; "plain"; "guard", the best one on that device; and the emulated ones.
inline std::vector<std::string> serve_isas() {
  std::vector<std::string> result = cpu::serve::isa_names();
  result.insert(result.end(), {"plain", "guard", "avx512_bf16_emulated", "neon_emulated"});
  return result;
}

inline bool is_emulated(const std::string& name) {
  return name.find("emulated") != std::string::npos;
}

inline void use_serve_isa(const std::string& name) {
  if (name == "avx512_bf16_emulated") {
    cpu::serve::force_isa(cpu::serve::isa_avx512_bf16_emulated());
  } else if (name == "neon_emulated") {
    cpu::serve::force_isa(cpu::serve::isa_neon_emulated());
  } else {
    cpu::serve::force_isa(name == "guard" ? "" : name);
  }
}

}  // namespace plait::test
