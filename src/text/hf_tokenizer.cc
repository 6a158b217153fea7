#include <filesystem>
#include <system_error>
#include <unordered_set>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "base/utf8.h"
#include "text/bpe.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_spec.h"

namespace plait {
namespace {

using hf_tokenizer::Tree;

Tree parse_tree(const std::string& text, const std::string& origin) {
  // Any depth is safe: the library parses and frees without recursion, and so do the readers.
  try {
    return Tree::parse(text);
  } catch (const Tree::exception& error) {
    throw_error(ErrorCode::kCorruptData, "{}: not valid JSON ({})", origin, error.what());
  }
}

AddedToken read_added_token(const Tree& entry, int32_t id, const std::string& origin) {
  AddedToken token;
  token.content = hf_tokenizer::text_member(entry, "content", origin);
  token.id = id;
  token.special = hf_tokenizer::flag_member(entry, "special", false, origin);
  token.lstrip = hf_tokenizer::flag_member(entry, "lstrip", false, origin);
  token.rstrip = hf_tokenizer::flag_member(entry, "rstrip", false, origin);
  token.single_word = hf_tokenizer::flag_member(entry, "single_word", false, origin);
  token.normalized = hf_tokenizer::flag_member(entry, "normalized", !token.special, origin);
  return token;
}

int32_t added_id(const Tree& value, const std::string& origin) {
  static constexpr int64_t kIdMax = 1 << 21;
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > kIdMax) {
    throw_error(ErrorCode::kCorruptData, "{}: an added token's id must be an integer from 0 to {}",
                origin, kIdMax);
  }
  return value.get<int32_t>();
}

void read_added_tokens(const Tree& root, TokenizerSpec& spec) {
  if (hf_tokenizer::is_unset(root, "added_tokens")) {
    return;
  }
  for (const Tree& entry : root.at("added_tokens")) {
    const Tree& id = hf_tokenizer::member(entry, "id", spec.origin);
    spec.added.push_back(read_added_token(entry, added_id(id, spec.origin), spec.origin));
  }
}

// Tokens that only tokenizer_config.json knows (added_tokens_decoder).
void read_config_tokens(const Tree& config, TokenizerSpec& spec) {
  if (hf_tokenizer::is_unset(config, "added_tokens_decoder")) {
    return;
  }
  const std::string origin = spec.origin + ": added_tokens_decoder";
  const Tree& decoder = config.at("added_tokens_decoder");
  if (!decoder.is_object()) {
    throw_error(ErrorCode::kCorruptData, "{}: must be an object", origin);
  }
  std::unordered_set<std::string> known;
  for (const AddedToken& token : spec.added) {
    known.insert(token.content);
  }
  for (const auto& [key, entry] : decoder.items()) {
    static constexpr size_t kDigitsMax = 8;
    const bool is_number = !key.empty() && key.size() <= kDigitsMax &&
                           key.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number) {
      throw_error(ErrorCode::kCorruptData, "{}: '{}' is no token id", origin, key);
    }
    AddedToken token = read_added_token(entry, added_id(Tree(std::stoll(key)), origin), origin);
    if (!known.contains(token.content)) {
      spec.added.push_back(std::move(token));
    }
  }
}

// "bos_token": "text" or {"content": "text", ...}.
std::optional<int32_t> named_token(const Tree& config, const char* key, const TokenizerSpec& spec,
                                   const TokenIndex& index) {
  if (hf_tokenizer::is_unset(config, key)) {
    return std::nullopt;
  }
  const Tree& value = config.at(key);
  const std::string text = value.is_object()
                               ? hf_tokenizer::text_member(value, "content", spec.origin)
                               : hf_tokenizer::text_member(config, key, spec.origin);
  for (const AddedToken& token : spec.added) {
    if (token.content == text) {
      return token.id;
    }
  }
  const int32_t id = index.find(decode_byte_alphabet(text).value_or(text));
  return id >= 0 ? std::optional<int32_t>(id) : std::nullopt;
}

// A string, or a list of {"name", "template"} of which "default" (else the first) is meant.
std::string config_template(const Tree& config, const std::string& origin) {
  if (hf_tokenizer::is_unset(config, "chat_template")) {
    return {};
  }
  const Tree& value = config.at("chat_template");
  if (!value.is_array()) {
    return hf_tokenizer::text_member(config, "chat_template", origin);
  }
  std::string chosen;
  for (const Tree& entry : value) {
    const bool is_default = hf_tokenizer::text_member(entry, "name", origin) == "default";
    if (chosen.empty() || is_default) {
      chosen = hf_tokenizer::text_member(entry, "template", origin);
    }
    if (is_default) {
      break;
    }
  }
  return chosen;
}

}  // namespace

TokenizerSpec parse_hf_tokenizer(const std::string& tokenizer_json, const std::string& config_json,
                                 const std::string& origin) {
  TokenizerSpec spec;
  spec.origin = origin;
  const Tree root = parse_tree(tokenizer_json, origin);
  hf_tokenizer::read_pre_tokenizer(root, spec);
  hf_tokenizer::read_model(hf_tokenizer::member(root, "model", origin), spec);
  hf_tokenizer::read_normalizer(root, spec);
  hf_tokenizer::read_post_processor(root, spec);
  hf_tokenizer::check_decoder(root, spec);
  read_added_tokens(root, spec);
  if (!config_json.empty()) {
    const Tree config = parse_tree(config_json, origin + " (tokenizer_config.json)");
    if (!config.is_object()) {
      throw_error(ErrorCode::kCorruptData, "{}: tokenizer_config.json must be an object", origin);
    }
    read_config_tokens(config, spec);
    const TokenIndex index(spec.tokens);
    spec.bos_id = named_token(config, "bos_token", spec, index);
    spec.eos_id = named_token(config, "eos_token", spec, index);
    spec.pad_id = named_token(config, "pad_token", spec, index);
    spec.chat_template = config_template(config, origin);
  }
  return spec;
}

TokenizerSpec read_hf_tokenizer(const std::string& directory) {
  const std::filesystem::path folder(directory);
  const std::filesystem::path file = folder / "tokenizer.json";
  if (!path_exists(file)) {
    if (path_exists(folder / "tokenizer.model")) {
      hf_tokenizer::refuse((folder / "tokenizer.model").string(), "a SentencePiece tokenizer");
    }
    throw_error(ErrorCode::kNotFound,
                "'{}' has no tokenizer.json; an HF model directory with its tokenizer is needed",
                directory);
  }
  const std::filesystem::path config = folder / "tokenizer_config.json";
  TokenizerSpec spec =
      parse_hf_tokenizer(read_file(file.string()),
                         path_exists(config) ? read_file(config.string()) : "", file.string());
  const std::filesystem::path jinja = folder / "chat_template.jinja";
  const std::filesystem::path json = folder / "chat_template.json";
  if (path_exists(jinja)) {
    spec.chat_template = read_file(jinja.string());
  } else if (path_exists(json)) {
    spec.chat_template =
        config_template(parse_tree(read_file(json.string()), json.string()), json.string());
  }
  return spec;
}

}  // namespace plait
