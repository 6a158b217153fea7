#include "device/cpu/serve/isa.h"

#include "base/cpu_info.h"
#include "base/error.h"

namespace plait::cpu::serve {
namespace {

// Those that this build and CPU have, best first.
std::vector<const IsaKernels*> available() {
  std::vector<const IsaKernels*> result;
#if defined(__x86_64__)
  if (cpu_info().avx512_bf16) {
    result.push_back(&isa_avx512_bf16());
  }
  if (cpu_info().avx512) {
    result.push_back(&isa_avx512());
  }
  if (cpu_info().avx2) {
    result.push_back(&isa_avx2());
  }
#elif defined(__aarch64__)
  result.push_back(&isa_neon());
#endif
  return result;
}

const IsaKernels* best() {
  for (const IsaKernels* kernels : available()) {
    if (cpu_path_enabled(kernels->name)) {
      return kernels;
    }
  }
  return nullptr;
}

const IsaKernels*& chosen() {
  static const IsaKernels* kernels = best();
  return kernels;
}

}  // namespace

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const IsaKernels* kernels : available()) {
    names.emplace_back(kernels->name);
  }
  return names;
}

const IsaKernels* isa() {
  return chosen();
}

void force_isa(const std::string& name) {
  if (name.empty() || name == "plain") {
    chosen() = name.empty() ? best() : nullptr;
    return;
  }
  for (const IsaKernels* kernels : available()) {
    if (name == kernels->name) {
      chosen() = kernels;
      return;
    }
  }
  PLAIT_CHECK_MSG(false, "{} is not an instruction set of this build and CPU", name);
}

void force_isa(const IsaKernels& kernels) {
  chosen() = &kernels;
}

}  // namespace plait::cpu::serve
