#include <string>

#include "base/json_full.h"
#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"
#include "spec/model_config.h"
#include "spec/parameter_table.h"

namespace plait {

void fuzz_model_config(std::span<const std::byte> input) {
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  std::string written;
  accept_or_refuse([&] {
    const ModelConfig config = parse_model_config(parse_json(text, "input"), "input");
    CHECK_EQ(config.group_size() * config.num_kv_heads, config.num_heads);
    CHECK(count_parameters(make_parameter_table(config, {})) > 0);
    check_trainable(config, "input");
    written = dump_json(to_hf_config(config, "float32"));
  });
  if (written.empty()) {
    return;
  }
  // What is written reads back, and equal: an Error here escapes and counts as a fault.
  const ModelConfig again = parse_model_config(parse_json(written, "written"), "written");
  CHECK_EQ(dump_json(to_hf_config(again, "float32")), written);
}

}  // namespace plait
