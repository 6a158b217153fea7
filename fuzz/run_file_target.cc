#include <string>

#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"
#include "spec/run_file.h"

namespace plait {

void fuzz_run_file(std::span<const std::byte> input) {
  static constexpr RunKey kKeys[] = {
      {"seed", RunType::kInteger},      {"train.steps", RunType::kInteger},
      {"train.lr", RunType::kNumber},   {"train.layout", RunType::kText},
      {"train.resume", RunType::kFlag}, {"train.betas", RunType::kNumberList},
      {"a.b.c", RunType::kIntegerList}, {"a.files", RunType::kTextList}};
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  accept_or_refuse([&] {
    const RunValues values = parse_run_file(text, "input", kKeys);
    CHECK_LE(values.size(), std::size(kKeys));
    for (const auto& [name, value] : values) {
      CHECK_GE(value.line, 1);
    }
  });
}

}  // namespace plait
