// The entry point that libFuzzer calls; PLAIT_FUZZ_FUNCTION names the target of this binary.
#include <cstddef>
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  plait::PLAIT_FUZZ_FUNCTION(std::as_bytes(std::span(data, size)));
  return 0;
}
