// The subcommands: each adds itself to the command line and runs if it was chosen.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace plait {

// What a chosen subcommand does; returns the exit status (docs/errors.md).
using Command = std::function<int()>;

// Each registers a subcommand with its options and help, and sets `chosen` when it was given. argv
// is the program's: run files are applied before flags are read.
struct CommandLine {
  int argc = 0;
  char** argv = nullptr;
};
void add_train_command(CLI::App& app, const CommandLine& line, Command& chosen);
void add_data_command(CLI::App& app, Command& chosen);
void add_checkpoint_command(CLI::App& app, Command& chosen);
void add_chat_command(CLI::App& app, Command& chosen);
void add_generate_command(CLI::App& app, Command& chosen);
void add_doctor_command(CLI::App& app, Command& chosen);
void add_make_model_command(CLI::App& app, Command& chosen);
void add_plan_command(CLI::App& app, Command& chosen);
void add_comm_command(CLI::App& app, Command& chosen);
void add_profile_command(CLI::App& app, Command& chosen);
void add_serve_command(CLI::App& app, Command& chosen);
// Subcommands of doctor.
void add_doctor_collect_command(CLI::App& doctor, Command& chosen);
void add_doctor_selftest_command(CLI::App& doctor, Command& chosen);
// Subcommands of plan.
void add_plan_calibrate_command(CLI::App& plan, Command& chosen);
void add_plan_check_command(CLI::App& plan, Command& chosen);
void add_plan_export_command(CLI::App& plan, Command& chosen);
void add_plan_serve_command(CLI::App& plan, Command& chosen);
void add_plan_explain_command(CLI::App& plan, Command& chosen);

}  // namespace plait
