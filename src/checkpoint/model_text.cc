#include "checkpoint/model_text.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/json_full.h"
#include "base/json_reader.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_import.h"
#include "checkpoint/gguf_parts.h"

namespace plait {
namespace {

// eos_token_id of a JSON file: an id, a list of ids, or null.
void add_file_ids(const std::filesystem::path& path, std::set<int32_t>& ids) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return;
  }
  const Json json = read_json(path.string());
  const JsonReader reader(json, path.string());
  const Json* value = reader.find("eos_token_id");
  if (value == nullptr) {
    return;
  }
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& entry : list) {
    const int64_t id = reader.to_integer("eos_token_id", entry);
    if (id < 0 || id > INT32_MAX) {
      reader.wrong_type("eos_token_id", entry, "a token id or a list of them");
    }
    ids.insert(static_cast<int32_t>(id));
  }
}

// GGUF has no generation_config: control tokens that end a turn or a text stop as well.
void add_gguf_ids(const GgufView& gguf, const Tokenizer& tokenizer, std::set<int32_t>& ids) {
  if (const std::optional<int64_t> eot = gguf.integer("tokenizer.ggml.eot_token_id")) {
    ids.insert(static_cast<int32_t>(*eot));
  }
  for (const char* name :
       {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"}) {
    const std::optional<int32_t> id = tokenizer.find_token(name);
    if (id && tokenizer.is_special(*id)) {
      ids.insert(*id);
    }
  }
}

std::string text_of(const Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? tokenizer.token_text(*id) : std::string();
}

}  // namespace

ModelText load_model_text(const std::string& path) {
  ModelText text;
  std::set<int32_t> ids;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    text.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load_hf(path));
    add_file_ids(std::filesystem::path(path) / "generation_config.json", ids);
    add_file_ids(std::filesystem::path(path) / "config.json", ids);
  } else {
    const GgufFile file(path);
    text.tokenizer = std::make_shared<const Tokenizer>(Tokenizer(gguf_tokenizer(file.view())));
    add_gguf_ids(file.view(), *text.tokenizer, ids);
  }
  const Tokenizer& tokenizer = *text.tokenizer;
  if (tokenizer.eos_id()) {
    ids.insert(*tokenizer.eos_id());
  }
  text.eos_ids.assign(ids.begin(), ids.end());
  if (!tokenizer.chat_template().empty()) {
    const ChatTemplateTokens tokens{.bos_token = text_of(tokenizer, tokenizer.bos_id()),
                                    .eos_token = text_of(tokenizer, tokenizer.eos_id()),
                                    .pad_token = text_of(tokenizer, tokenizer.pad_id())};
    text.chat_template = std::make_shared<const ChatTemplate>(
        tokenizer.chat_template(), tokens, tokenizer.origin() + ": chat template");
  }
  return text;
}

}  // namespace plait
