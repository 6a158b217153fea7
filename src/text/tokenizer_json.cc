#include "text/tokenizer_json.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/json_full.h"

namespace plait::hf_tokenizer {
namespace {

constexpr int64_t kIdMax = 1 << 21;

std::string shown(const Tree& value) {
  // dump() recurses, and the file may nest at will.
  return value.is_structured() ? std::string(value.is_array() ? "a list" : "an object")
                               : value.dump(-1, ' ', false, Tree::error_handler_t::replace);
}

// Far above any vocabulary; bounds what a broken id can make plait allocate.
int32_t to_id(const Tree& value, const std::string& what, const std::string& origin) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > kIdMax) {
    throw_error(ErrorCode::kCorruptData, "{}: {} has the id {}; it must be an integer from 0 to {}",
                origin, what, shown(value), kIdMax);
  }
  return value.get<int32_t>();
}

void read_vocabulary(const Tree& model, TokenizerSpec& spec) {
  const Tree& vocab = member(model, "vocab", spec.origin);
  if (!vocab.is_object()) {
    throw_error(ErrorCode::kCorruptData, "{}: model.vocab must be an object of tokens and ids",
                spec.origin);
  }
  for (const auto& [token, value] : vocab.items()) {
    const auto id = static_cast<size_t>(to_id(value, "token '" + token + "'", spec.origin));
    if (id >= spec.tokens.size()) {
      // Grows in steps: ids come in the order of the names.
      spec.tokens.resize(std::max(id + 1, spec.tokens.size() * 2));
    }
    if (!spec.tokens[id].empty()) {
      throw_error(ErrorCode::kCorruptData, "{}: two tokens have the id {}", spec.origin, id);
    }
    spec.tokens[id] = decode_byte_alphabet(token).value_or(token);
  }
  while (!spec.tokens.empty() && spec.tokens.back().empty()) {
    spec.tokens.pop_back();
  }
}

// ["a", "b"] or "a b", as the latter.
std::string merge_text(const Tree& merge, const std::string& origin) {
  if (merge.is_string()) {
    return merge.get<std::string>();
  }
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return merge[0].get<std::string>() + ' ' + merge[1].get<std::string>();
  }
  throw_error(ErrorCode::kCorruptData, "{}: the merge {} is neither \"a b\" nor [\"a\", \"b\"]",
              origin, shown(merge));
}

void read_merges(const Tree& model, TokenizerSpec& spec) {
  const Tree& merges = member(model, "merges", spec.origin);
  if (!merges.is_array()) {
    throw_error(ErrorCode::kCorruptData, "{}: model.merges must be a list", spec.origin);
  }
  std::vector<std::string> texts;
  texts.reserve(merges.size());
  for (const Tree& merge : merges) {
    texts.push_back(merge_text(merge, spec.origin));
  }
  add_merges(texts, spec);
}

void add_byte_level(const Tree& step, bool is_first, TokenizerSpec& spec) {
  if (flag_member(step, "use_regex", true, spec.origin)) {
    spec.splits.push_back({true, kGpt2SplitRegex});
  }
  spec.add_prefix_space = flag_member(step, "add_prefix_space", true, spec.origin);
  if (spec.add_prefix_space && !is_first) {
    refuse(spec.origin, "pre_tokenizer ByteLevel with add_prefix_space behind another step");
  }
}

std::string split_pattern(const Tree& step, const std::string& origin) {
  const Tree& pattern = member(step, "pattern", origin);
  if (!is_unset(pattern, "Regex")) {
    return text_member(pattern, "Regex", origin);
  }
  const std::string text = text_member(pattern, "String", origin);
  if (text.find("\\E") != std::string::npos) {
    refuse(origin, "a split at the string '" + text + "'");
  }
  return "\\Q" + text + "\\E";
}

void add_split_step(const Tree& step, bool is_first, TokenizerSpec& spec) {
  const std::string type = text_member(step, "type", spec.origin);
  if (type == "ByteLevel") {
    add_byte_level(step, is_first, spec);
  } else if (type == "Digits") {
    const bool individual = flag_member(step, "individual_digits", false, spec.origin);
    spec.splits.push_back(individual ? SplitStep{false, ""} : SplitStep{true, R"(\p{N}+)"});
  } else if (type == "Split") {
    const std::string behavior = text_member(step, "behavior", spec.origin);
    if (behavior != "Isolated" || flag_member(step, "invert", false, spec.origin)) {
      refuse(spec.origin, "pre_tokenizer Split with behavior " + behavior + " or inverted");
    }
    spec.splits.push_back({true, split_pattern(step, spec.origin)});
  } else if (type == "Metaspace") {
    refuse(spec.origin, "a SentencePiece-style tokenizer (pre_tokenizer Metaspace, as Llama 2's)");
  } else {
    refuse(spec.origin, "pre_tokenizer " + type);
  }
}

// Whether the part is of that type, or a sequence (under `list_key`) that has one.
bool has_type(const Tree& part, const std::string& type, const char* list_key) {
  if (!part.is_object()) {
    return false;
  }
  const auto list = part.find(list_key);
  if (list != part.end() && list->is_array()) {
    return std::ranges::any_of(*list, [&](const Tree& inner) { return has_type(inner, type, ""); });
  }
  const auto found = part.find("type");
  return found != part.end() && *found == type;
}

void add_template_item(const Tree& item, const Tree& processor, bool behind_text,
                       TokenizerSpec& spec) {
  const Tree& token = member(item, "SpecialToken", spec.origin);
  const std::string name = text_member(token, "id", spec.origin);
  const Tree& known = member(processor, "special_tokens", spec.origin);
  const Tree& ids =
      member(member(known, name.c_str(), spec.origin), "ids", spec.origin + ": " + name);
  for (const Tree& id : ids) {
    (behind_text ? spec.suffix_ids : spec.prefix_ids)
        .push_back(to_id(id, "special token '" + name + "'", spec.origin));
  }
}

void add_post_processor(const Tree& processor, TokenizerSpec& spec) {
  const std::string type = text_member(processor, "type", spec.origin);
  if (type == "ByteLevel") {  // moves offsets only
    return;
  }
  if (type != "TemplateProcessing") {
    refuse(spec.origin, "post_processor " + type);
  }
  bool behind_text = false;
  for (const Tree& item : member(processor, "single", spec.origin)) {
    if (item.is_object() && item.contains("Sequence")) {
      behind_text = true;
    } else {
      add_template_item(item, processor, behind_text, spec);
    }
  }
}

}  // namespace

void refuse(const std::string& origin, const std::string& what) {
  throw_error(ErrorCode::kNotImplemented,
              "{}: {} is not implemented; byte-level BPE tokenizers (Qwen, Llama 3, SmolLM2) are",
              origin, what);
}

const Tree& member(const Tree& object, const char* key, const std::string& origin) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) {
    throw_error(ErrorCode::kCorruptData, "{}: the key {} is missing", origin, key);
  }
  return *found;
}

std::string text_member(const Tree& object, const char* key, const std::string& origin) {
  const Tree& value = member(object, key, origin);
  if (!value.is_string()) {
    throw_error(ErrorCode::kCorruptData, "{}: {} must be a string", origin, key);
  }
  return value.get<std::string>();
}

bool flag_member(const Tree& object, const char* key, bool absent, const std::string& origin) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    return absent;
  }
  if (!found->is_boolean()) {
    throw_error(ErrorCode::kCorruptData, "{}: {} must be true or false", origin, key);
  }
  return found->get<bool>();
}

bool is_unset(const Tree& object, const char* key) {
  if (!object.is_object()) {
    return true;
  }
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ||
         (found->is_string() && found->get_ref<const std::string&>().empty());
}

void read_model(const Tree& model, TokenizerSpec& spec) {
  const std::string type =
      is_unset(model, "type") ? "BPE" : text_member(model, "type", spec.origin);
  if (type != "BPE") {
    refuse(spec.origin, "a tokenizer model of type " + type);
  }
  if (flag_member(model, "byte_fallback", false, spec.origin)) {
    refuse(spec.origin, "a SentencePiece-style tokenizer (byte_fallback, as Llama 2's)");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"}) {
    if (!is_unset(model, key)) {
      refuse(spec.origin, std::string("model.") + key);
    }
  }
  spec.ignore_merges = flag_member(model, "ignore_merges", false, spec.origin);
  read_vocabulary(model, spec);
  read_merges(model, spec);
}

void read_normalizer(const Tree& root, TokenizerSpec& spec) {
  if (is_unset(root, "normalizer")) {
    return;
  }
  const Tree& normalizer = root.at("normalizer");
  const std::string type = text_member(normalizer, "type", spec.origin);
  if (type == "NFC") {
    spec.nfc = true;
    return;
  }
  if (type == "Sequence") {
    for (const Tree& step : member(normalizer, "normalizers", spec.origin)) {
      const std::string inner = text_member(step, "type", spec.origin);
      if (inner != "NFC") {
        refuse(spec.origin, "normalizer " + inner);
      }
      spec.nfc = true;
    }
    return;
  }
  refuse(spec.origin, "normalizer " + type);
}

void read_pre_tokenizer(const Tree& root, TokenizerSpec& spec) {
  const Tree none;
  const Tree& steps = is_unset(root, "pre_tokenizer") ? none : root.at("pre_tokenizer");
  if (!has_type(steps, "ByteLevel", "pretokenizers") &&
      !has_type(steps, "Metaspace", "pretokenizers")) {
    refuse(spec.origin, "a tokenizer without a ByteLevel pre_tokenizer");
  }
  if (text_member(steps, "type", spec.origin) != "Sequence") {
    add_split_step(steps, true, spec);
    return;
  }
  bool is_first = true;
  for (const Tree& step : member(steps, "pretokenizers", spec.origin)) {
    add_split_step(step, is_first, spec);
    is_first = false;
  }
}

void read_post_processor(const Tree& root, TokenizerSpec& spec) {
  if (is_unset(root, "post_processor")) {
    return;
  }
  const Tree& processor = root.at("post_processor");
  if (text_member(processor, "type", spec.origin) != "Sequence") {
    add_post_processor(processor, spec);
    return;
  }
  for (const Tree& step : member(processor, "processors", spec.origin)) {
    add_post_processor(step, spec);
  }
}

void check_decoder(const Tree& root, const TokenizerSpec& spec) {
  if (is_unset(root, "decoder") || !has_type(root.at("decoder"), "ByteLevel", "decoders")) {
    refuse(spec.origin, "a tokenizer whose decoder is not ByteLevel");
  }
}

}  // namespace plait::hf_tokenizer
