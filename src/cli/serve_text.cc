#include "cli/serve_text.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/json_full.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "data/token_file.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

Tokenizer byte_tokenizer(const std::string& origin) {
  TokenizerSpec spec;
  spec.origin = origin;
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.emplace_back(1, static_cast<char>(byte));
  }
  AddedToken end;
  end.content = "<|endofdocument|>";
  end.id = kEndOfDocument;
  end.special = true;
  spec.tokens.resize(static_cast<size_t>(kEndOfDocument) + 1);
  spec.tokens.back() = end.content;
  spec.added.push_back(end);
  spec.splits.push_back({true, kGpt2SplitRegex});
  spec.eos_id = kEndOfDocument;
  return Tokenizer(std::move(spec));
}

void read_defaults(const std::string& path, SamplingParams& defaults) {
  const Json json = read_json(path);
  const JsonReader reader(json, path);
  const auto real = [&](const char* key, float otherwise) {
    return static_cast<float>(reader.number(key).value_or(otherwise));
  };
  defaults.temperature = real("temperature", defaults.temperature);
  defaults.top_p = real("top_p", defaults.top_p);
  defaults.min_p = real("min_p", defaults.min_p);
  defaults.repetition_penalty = real("repetition_penalty", defaults.repetition_penalty);
  defaults.top_k = reader.integer("top_k").value_or(defaults.top_k);
}

std::string token_text(const Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? tokenizer.token_text(*id) : std::string();
}

}  // namespace

ServeText load_serve_text(const ServeTextOptions& options) {
  ServeText text;
  const fs::path folder(options.model);
  std::error_code ignored;
  if (fs::is_directory(folder, ignored) && !fs::exists(folder / "tokenizer.json", ignored)) {
    log_warning(-1, "{}: no tokenizer.json; tokens are taken as bytes, as in plait train's data",
                options.model);
    text.model.tokenizer = std::make_shared<const Tokenizer>(byte_tokenizer(options.model));
    text.model.eos_ids = {kEndOfDocument};
  } else {
    text.model = load_model_text(options.model);
  }
  if (options.use_generation_config && fs::exists(folder / "generation_config.json", ignored)) {
    read_defaults((folder / "generation_config.json").string(), text.defaults);
  }
  if (!options.chat_template_file.empty()) {
    const Tokenizer& tokenizer = *text.model.tokenizer;
    ChatTemplateTokens tokens;
    tokens.bos_token = token_text(tokenizer, tokenizer.bos_id());
    tokens.eos_token = token_text(tokenizer, tokenizer.eos_id());
    tokens.pad_token = token_text(tokenizer, tokenizer.pad_id());
    text.model.chat_template = std::make_shared<const ChatTemplate>(
        read_file(options.chat_template_file), tokens, options.chat_template_file);
  }
  return text;
}

}  // namespace plait
