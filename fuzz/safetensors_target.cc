#include <cstdint>
#include <vector>

#include "checkpoint/safetensors.h"
#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"

namespace plait {

void fuzz_safetensors(std::span<const std::byte> input) {
  SafetensorsView view;
  bool accepted = false;
  accept_or_refuse([&] {
    view = parse_safetensors(input, "input");
    accepted = true;
  });
  if (!accepted) {
    return;
  }
  size_t covered = 0;
  for (const SafeTensor& tensor : view.tensors) {
    covered += tensor.bytes.size();
    accept_or_refuse([&] {
      std::vector<float> values(static_cast<size_t>(tensor.count()));
      copy_as_f32(tensor, whole_tensor(tensor), values);
    });
    accept_or_refuse([&] { read_integers(tensor); });
  }
  CHECK_LE(covered + 8, input.size());
}

}  // namespace plait
