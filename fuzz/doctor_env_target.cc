#include <sstream>
#include <string>

#include "base/error.h"
#include "base/json_full.h"
#include "doctor/env_checks.h"
#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"

namespace plait {

// "=== NAME" begins the text of a fact, as the index of a recording names it.
void fuzz_doctor_env(std::span<const std::byte> input) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(input.data()), input.size()));
  EnvFacts facts;
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("=== ")) {
      name = line.substr(4);
    } else {
      facts[name] += line + "\n";
    }
  }
  accept_or_refuse([&] {
    const std::vector<EnvCheck> checks = check_env(facts);
    CHECK_GE(checks.size(), 25U);
    parse_json(env_json(checks), "checks");
    for (const char c : env_text(checks)) {
      CHECK(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));
    }
  });
}

}  // namespace plait
