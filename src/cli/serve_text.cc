#include "cli/serve_text.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/json_full.h"
#include "base/json_reader.h"
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

void add_eos(std::vector<int32_t>& ids, int64_t id) {
  const auto narrow = static_cast<int32_t>(id);
  if (id >= 0 && std::find(ids.begin(), ids.end(), narrow) == ids.end()) {
    ids.push_back(narrow);
  }
}

// eos_token_id is a number or a list of them; both files may have it.
void read_eos(const JsonReader& reader, std::vector<int32_t>& ids) {
  const Json* value = reader.find("eos_token_id");
  if (value == nullptr) {
    return;
  }
  if (!value->is_array()) {
    add_eos(ids, reader.to_integer("eos_token_id", *value));
    return;
  }
  for (const Json& one : *value) {
    add_eos(ids, reader.to_integer("eos_token_id", one));
  }
}

void read_generation_config(const std::string& path, ServeText& text, bool with_defaults) {
  const Json json = read_json(path);
  const JsonReader reader(json, path);
  read_eos(reader, text.eos_token_ids);
  if (!with_defaults) {
    return;
  }
  SamplingParams& defaults = text.defaults;
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
  const bool has_tokenizer = fs::exists(folder / "tokenizer.json", ignored);
  text.tokenizer = std::make_unique<const Tokenizer>(
      has_tokenizer ? Tokenizer::load_hf(options.model) : byte_tokenizer(options.model));
  if (fs::exists(folder / "generation_config.json", ignored)) {
    read_generation_config((folder / "generation_config.json").string(), text,
                           options.use_generation_config);
  }
  if (has_tokenizer && fs::exists(folder / "config.json", ignored)) {
    const std::string path = (folder / "config.json").string();
    const Json json = read_json(path);
    read_eos(JsonReader(json, path), text.eos_token_ids);
  }
  add_eos(text.eos_token_ids, text.tokenizer->eos_id().value_or(-1));
  const bool own = !options.chat_template_file.empty();
  const std::string source =
      own ? read_file(options.chat_template_file) : text.tokenizer->chat_template();
  if (!source.empty()) {
    const Tokenizer& tokenizer = *text.tokenizer;
    ChatTemplateTokens tokens;
    tokens.bos_token = token_text(tokenizer, tokenizer.bos_id());
    tokens.eos_token = token_text(tokenizer, tokenizer.eos_id());
    tokens.pad_token = token_text(tokenizer, tokenizer.pad_id());
    text.chat_template = std::make_unique<const ChatTemplate>(
        source, tokens, own ? options.chat_template_file : options.model);
  }
  return text;
}

}  // namespace plait
