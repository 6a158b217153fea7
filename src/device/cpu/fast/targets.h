// Limits Highway to the instruction sets worth their compile time; include before any of Highway's
// headers. Left on x86: scalar code (the baseline), AVX2, AVX3; on Arm NEON (arrays of vectors,
// which the attention tiles need, do not exist for SVE). A sanitised build does without AVX3: the
// same code is sanitised as it is for AVX2.
#pragma once

// Highway's other portable code, taken by clang and g++ from 12.3 on, cuts fp16 and bf16 off where
// it should round to even, and makes infinity of NaN (1.0.3).
#define HWY_BROKEN_EMU128 1

#ifdef PLAIT_SANITIZED
#define PLAIT_HWY_UNSANITIZED HWY_AVX3
#else
#define PLAIT_HWY_UNSANITIZED 0
#endif
#define HWY_DISABLED_TARGETS                                                                       \
  (HWY_SSSE3 | HWY_SSE4 | PLAIT_HWY_UNSANITIZED | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128)
