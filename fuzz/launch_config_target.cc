#include <string>

#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"
#include "plan/check.h"

namespace plait {
namespace {

void fuzz_config(std::span<const std::byte> input, const std::string& origin) {
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  CheckOptions options;
  options.propose = false;
  accept_or_refuse([&] { check_text(text, origin, options); });
}

}  // namespace

void fuzz_deepspeed(std::span<const std::byte> input) {
  fuzz_config(input, "input.json");
}

void fuzz_mindformers(std::span<const std::byte> input) {
  fuzz_config(input, "input.yaml");
}

void fuzz_plait_run(std::span<const std::byte> input) {
  fuzz_config(input, "input.toml");
}

}  // namespace plait
