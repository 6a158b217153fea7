// The vector code of an instruction set that this CPU may lack, compiled from the same text for the
// baseline: tests everything about it but the compiler's choice of instructions.
#define isa_avx512_bf16 isa_avx512_bf16_emulated
#include "device/cpu/serve/isa_avx512_bf16.cc"
