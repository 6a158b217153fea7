// Limits Highway to the instruction sets worth their compile time; include before any of Highway's
// headers. Left on x86: scalar code (the baseline), AVX2, AVX3; on Arm NEON (arrays of vectors,
// which the attention tiles need, do not exist for SVE).
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
