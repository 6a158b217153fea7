// The kernels of instruction sets that this CPU may lack, compiled from the same text for the
// baseline: tests everything about them but the compiler's choice of instructions.
#define packed_kernels_neon packed_kernels_neon_emulated
#include "device/cpu/gemm_neon.cc"
