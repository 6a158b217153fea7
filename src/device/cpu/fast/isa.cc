#include "device/cpu/fast/isa.h"

#include <mutex>

#include "device/cpu/fast/targets.h"

#include <hwy/highway.h>

#include "base/cpu_info.h"
#include "base/error.h"

namespace plait::cpu::fast {

void limit_isa() {
  static std::once_flag once;
  std::call_once(once, [] {
    int64_t disabled = 0;
#if HWY_ARCH_X86
    if (!cpu_info().avx512) {
      disabled |= HWY_AVX3 | HWY_AVX3_DL;
    }
    if (!cpu_info().avx2) {
      disabled |= HWY_AVX2;
    }
#endif
    if (disabled != 0) {
      hwy::DisableTargets(disabled);
    }
  });
}

std::vector<std::string> isa_names() {
  limit_isa();
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

void force_isa(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  if (name.empty()) {
    return;
  }
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) {
      hwy::SetSupportedTargetsForTest(target);
      return;
    }
  }
  PLAIT_CHECK_MSG(false, "{} is not an instruction set of this build and CPU", name);
}

}  // namespace plait::cpu::fast
