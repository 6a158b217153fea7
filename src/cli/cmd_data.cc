#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "base/json_full.h"
#include "cli/commands.h"
#include "data/token_builder.h"
#include "data/token_file.h"

namespace plait {
namespace {

struct DataFlags {
  BuildOptions build;
  std::string source;
  ExportOptions export_options;
  bool json = false;
};

int run_build(const DataFlags& flags) {
  const BuildReport report = build_token_file(flags.build);
  if (flags.json) {
    std::puts(dump_json({{"documents", report.num_documents},
                         {"tokens", report.num_tokens},
                         {"text_bytes", report.text_bytes},
                         {"skipped", report.skipped}},
                        2)
                  .c_str());
    return 0;
  }
  for (const std::string& reason : report.skipped) {
    std::fprintf(stderr, "skipped %s\n", reason.c_str());
  }
  std::printf("%s.bin, %s.idx: %lld documents, %lld tokens\n", flags.build.output.c_str(),
              flags.build.output.c_str(), static_cast<long long>(report.num_documents),
              static_cast<long long>(report.num_tokens));
  return 0;
}

int run_export(const DataFlags& flags) {
  const TokenFile tokens(flags.source);
  const int64_t bytes = export_text(tokens, flags.export_options);
  std::printf("%s: %lld bytes of text\n", flags.export_options.output.c_str(),
              static_cast<long long>(bytes));
  return 0;
}

}  // namespace

void add_data_command(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<DataFlags>();
  CLI::App* data = app.add_subcommand("data", "text to Megatron-compatible token files and back");
  data->require_subcommand(1);
  data->footer(
      "Examples:\n"
      "  plait data build --input docs/ --output text     writes text.bin and text.idx\n"
      "  plait data export --input text --output text.txt");
  CLI::App* build = data->add_subcommand("build", "a file or folder of text to byte tokens");
  build->add_option("--input", flags->build.input, "file or folder")->required();
  build->add_option("--output", flags->build.output, "PREFIX of the .bin and .idx files")
      ->required();
  build->add_flag("--json", flags->json, "print the result as JSON");
  build->callback([flags, &chosen] { chosen = [flags] { return run_build(*flags); }; });
  CLI::App* back = data->add_subcommand("export", "byte tokens back to text");
  back->add_option("--input", flags->source, "PREFIX of the .bin and .idx files")->required();
  back->add_option("--output", flags->export_options.output, "file, or folder with --split")
      ->required();
  back->add_flag("--split", flags->export_options.split_documents, "one file a document");
  back->callback([flags, &chosen] { chosen = [flags] { return run_export(*flags); }; });
}

}  // namespace plait
