#include <string>

#include "base/error.h"
#include "doctor/diagnosis.h"
#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"

namespace plait {

void fuzz_doctor_rules(std::span<const std::byte> input) {
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  accept_or_refuse([&] {
    RuleSet rules(RuleSet::kNoRules);
    rules.add_text(text, "input");
    rules.build_search();
    // The rules over their own text: every pattern that reads like what it matches is tried.
    const Diagnosis diagnosis = diagnose(scan_content(text, "input", rules), rules);
    CHECK(!diagnosis.name.empty());
  });
}

}  // namespace plait
