#include <string>

#include "base/error.h"
#include "base/json_full.h"
#include "doctor/diagnosis.h"
#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"

namespace plait {
namespace {

const RuleSet& rules() {
  static const RuleSet* set = [] {
    static RuleSet built;
    built.build_search();
    return &built;
  }();
  return *set;
}

}  // namespace

void fuzz_doctor_log(std::span<const std::byte> input) {
  const std::string bytes(reinterpret_cast<const char*>(input.data()), input.size());
  accept_or_refuse([&] {
    const Diagnosis diagnosis = diagnose(scan_content(bytes, "input", rules()), rules());
    parse_json(diagnosis_json(diagnosis), "diagnosis");
    for (const char c : diagnosis_text(diagnosis)) {
      CHECK(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));
    }
  });
}

}  // namespace plait
