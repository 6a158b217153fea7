#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/json_full.h"
#include "cli/commands.h"
#include "cli/terminal_model.h"

namespace plait {
namespace {

struct ChatFlags {
  EngineFlags engine;
  SamplingParams sampling;
  std::string source;
  std::string system;
  bool no_thinking = false;
};

Json make_message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

int run_chat(ChatFlags& flags) {
  TerminalModel model(flags.source, flags.engine);
  if (model.follower()) {
    return 0;
  }
  if (model.chat_template() == nullptr) {
    throw_error(ErrorCode::kInvalidArgument,
                "'{}' has no chat template; use plait generate for models that are no assistants",
                flags.source);
  }
  Json messages = Json::array();
  if (!flags.system.empty()) {
    messages.push_back(make_message("system", flags.system));
  }
  const Json kwargs = {{"enable_thinking", !flags.no_thinking}};
  std::string line;
  for (;;) {
    std::fputs("> ", stderr);
    if (!std::getline(std::cin, line)) {
      return 0;
    }
    if (line.empty()) {
      continue;
    }
    messages.push_back(make_message("user", line));
    const std::vector<TextSegment> prompt =
        model.chat_template()->render({.messages = &messages,
                                       .tools = nullptr,
                                       .kwargs = &kwargs,
                                       .add_generation_prompt = true,
                                       .now_s = std::time(nullptr)});
    std::string answer;
    model.answer(model.tokenizer()->encode(prompt), flags.sampling, [&](std::string_view text) {
      answer += text;
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    });
    std::fputc('\n', stdout);
    messages.push_back(make_message("assistant", answer));
  }
}

}  // namespace

void add_chat_command(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<ChatFlags>();
  flags->sampling.temperature = 0.7F;
  flags->sampling.top_p = 0.8F;
  flags->sampling.top_k = 20;
  flags->sampling.max_tokens = 1024;
  CLI::App* chat = app.add_subcommand("chat", "talk to a model at the terminal");
  chat->footer("Example:\n  plait chat models/qwen3-0.6b --no-thinking");
  chat->add_option("source,--model", flags->source, "an HF directory or a GGUF file")->required();
  SamplingParams& sampling = flags->sampling;
  chat->add_option("--system", flags->system, "the system message");
  chat->add_option("--max-tokens", sampling.max_tokens, "of an answer")->capture_default_str();
  chat->add_option("--temperature", sampling.temperature, "0: the most likely token")
      ->capture_default_str();
  chat->add_option("--top-k", sampling.top_k, "0: all")->capture_default_str();
  chat->add_option("--top-p", sampling.top_p, "1: all")->capture_default_str();
  chat->add_flag("--no-thinking", flags->no_thinking, "ask the template for an answer at once");
  add_engine_options(*chat, flags->engine);
  chat->callback([flags, &chosen] { chosen = [flags] { return run_chat(*flags); }; });
}

}  // namespace plait
