// The kernels of instruction sets that this CPU may lack, compiled from the same text for the
// baseline: tests everything about them but the compiler's choice of instructions.
#define packed_kernels_avx512_bf16 packed_kernels_avx512_bf16_emulated
#include "device/cpu/gemm_avx512_bf16.cc"
