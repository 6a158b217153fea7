#include <cstdio>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json_full.h"
#include "base/log.h"
#include "checkpoint/model_text.h"
#include "cli/commands.h"
#include "data/token_builder.h"
#include "data/token_file.h"

namespace plait {
namespace {

struct DataFlags {
  BuildOptions build;
  std::string source;
  ExportOptions export_options;
  std::string tokenizer;        // empty: bytes
  std::string end_of_document;  // empty: the tokenizer's end of a text
  bool json = false;
};

constexpr double kReportEveryS = 5;

int32_t end_of_document(const DataFlags& flags, const Tokenizer& tokenizer) {
  if (flags.end_of_document.empty()) {
    if (!tokenizer.eos_id()) {
      throw_error(ErrorCode::kInvalidArgument,
                  "{} names no token that ends a text; name one with --end-of-document",
                  tokenizer.origin());
    }
    return *tokenizer.eos_id();
  }
  const std::optional<int32_t> id = tokenizer.find_token(flags.end_of_document);
  if (!id) {
    throw_error(ErrorCode::kInvalidArgument, "end-of-document is '{}', which is no token of {}",
                flags.end_of_document, tokenizer.origin());
  }
  return *id;
}

TextCodec make_codec(const DataFlags& flags) {
  if (flags.tokenizer.empty()) {
    if (!flags.end_of_document.empty()) {
      throw_error(ErrorCode::kInvalidArgument,
                  "end-of-document names a token of a tokenizer; give --tokenizer too");
    }
    return byte_codec();
  }
  std::filesystem::path path = flags.tokenizer;
  if (path.filename() == "tokenizer.json") {
    path = path.has_parent_path() ? path.parent_path() : ".";
  }
  const std::shared_ptr<const Tokenizer> tokenizer = load_model_text(path.string()).tokenizer;
  TextCodec codec;
  codec.encode = [tokenizer](std::string_view text, const TextCodec::Put& put) {
    put(tokenizer->encode(text));
  };
  codec.bytes = [tokenizer](int32_t token) { return tokenizer->token_bytes(token); };
  codec.end_of_document = end_of_document(flags, *tokenizer);
  codec.vocab_size = tokenizer->vocab_size();
  return codec;
}

int run_build(const DataFlags& flags) {
  BuildOptions options = flags.build;
  options.codec = make_codec(flags);
  options.progress = [reported_s = now_s()](int64_t bytes) mutable {
    if (now_s() - reported_s > kReportEveryS) {
      reported_s = now_s();
      log_info(0, "{} of text so far", format_bytes(bytes));
    }
  };
  const BuildReport report = build_token_file(options);
  if (flags.json) {
    std::puts(dump_json({{"documents", report.num_documents},
                         {"tokens", report.num_tokens},
                         {"vocab_size", options.codec.vocab_size},
                         {"end_of_document", options.codec.end_of_document},
                         {"text_bytes", report.text_bytes},
                         {"skipped", report.skipped}},
                        2)
                  .c_str());
    return 0;
  }
  for (const std::string& reason : report.skipped) {
    std::fprintf(stderr, "skipped %s\n", reason.c_str());
  }
  std::printf("%s.bin, %s.idx: %lld documents, %lld tokens of a vocabulary of %lld\n",
              flags.build.output.c_str(), flags.build.output.c_str(),
              static_cast<long long>(report.num_documents),
              static_cast<long long>(report.num_tokens),
              static_cast<long long>(options.codec.vocab_size));
  return 0;
}

int run_export(const DataFlags& flags) {
  const TokenFile tokens(flags.source);
  ExportOptions options = flags.export_options;
  options.codec = make_codec(flags);
  const int64_t bytes = export_text(tokens, options);
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
      "  plait data build --input docs/ --output text --tokenizer models/Qwen3-0.6B\n"
      "  plait data export --input text --output text.txt");
  const auto add_codec = [flags](CLI::App* command) {
    command->add_option("--tokenizer", flags->tokenizer,
                        "folder with tokenizer.json, or a GGUF file; without it tokens are bytes");
    command->add_option("--end-of-document", flags->end_of_document,
                        "token between documents, such as '<|endoftext|>'; default: the "
                        "tokenizer's end of a text");
  };
  CLI::App* build = data->add_subcommand("build", "a file or folder of text to tokens");
  add_codec(build);
  build->add_option("--input", flags->build.input, "file or folder")->required();
  build->add_option("--output", flags->build.output, "PREFIX of the .bin and .idx files")
      ->required();
  build->add_flag("--json", flags->json, "print the result as JSON");
  build->callback([flags, &chosen] { chosen = [flags] { return run_build(*flags); }; });
  CLI::App* back = data->add_subcommand("export", "tokens back to text");
  add_codec(back);
  back->add_option("--input", flags->source, "PREFIX of the .bin and .idx files")->required();
  back->add_option("--output", flags->export_options.output, "file, or folder with --split")
      ->required();
  back->add_flag("--split", flags->export_options.split_documents, "one file a document");
  back->callback([flags, &chosen] { chosen = [flags] { return run_export(*flags); }; });
}

}  // namespace plait
