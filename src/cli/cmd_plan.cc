#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace plait {

void add_plan_command(CLI::App& app, Command& chosen) {
  CLI::App* plan = app.add_subcommand("plan", "check layouts of training jobs before they run");
  plan->require_subcommand(1);
  add_plan_check_command(*plan, chosen);
}

}  // namespace plait
