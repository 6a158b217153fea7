#include <string>

#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"
#include "plan/check.h"
#include "plan/readers/shell.h"

namespace plait {

namespace {

void read_commands(const std::string& text) {
  const ShellScript script = read_shell(text, "input.sh");
  for (const ShellCommand& command : script.commands) {
    CHECK(!command.words.empty());
    for (const ShellWord& word : command.words) {
      CHECK_GE(word.line, 0);
    }
  }
}

}  // namespace

// A launch script, as far as a verdict; the search for a proposal is left out.
void fuzz_launch_script(std::span<const std::byte> input) {
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  accept_or_refuse([&] { read_commands(text); });
  CheckOptions options;
  options.propose = false;
  accept_or_refuse([&] { check_text(text, "input.sh", options); });
}

}  // namespace plait
