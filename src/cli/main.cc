// plait: one program, one subcommand a job.
#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/commands.h"

namespace plait {
namespace {

// CLI11 says of an unknown subcommand only that one is required.
void check_subcommand(const CLI::App& app, const std::string& name) {
  if (name.starts_with("-")) {
    return;
  }
  std::string known;
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (subcommand->get_name() == name) {
      return;
    }
    known += (known.empty() ? "" : ", ") + subcommand->get_name();
  }
  throw_error(ErrorCode::kInvalidArgument, "'{}' is not a subcommand; allowed are {}", name, known);
}

int run(int argc, char** argv) {
  CLI::App app{"plait: multi-dimensional hybrid parallelism for large language models"};
  app.set_version_flag("--version", PLAIT_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.footer(
      "Exit status: 0 done; 1 it ran and the answer is no; 2 bad usage or input; 3 environment.\n"
      "Try: plait train --help");
  Command chosen;
  add_train_command(app, {argc, argv}, chosen);
  add_data_command(app, chosen);
  add_checkpoint_command(app, chosen);
  add_chat_command(app, chosen);
  add_generate_command(app, chosen);
  add_make_model_command(app, chosen);
  add_plan_command(app, chosen);
  add_comm_command(app, chosen);
  add_profile_command(app, chosen);
  add_serve_command(app, chosen);
  add_doctor_command(app, chosen);
  if (argc > 1) {
    check_subcommand(app, argv[1]);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  }
  return chosen ? chosen() : 2;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  try {
    return plait::run(argc, argv);
  } catch (const plait::Error& error) {
    std::fprintf(stderr, "plait: %s\n", error.what());
    return plait::exit_code(error.code());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "plait: out of memory; choose a smaller model or batch, or more ranks\n");
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plait: %s\n", error.what());
    return 3;
  }
}
