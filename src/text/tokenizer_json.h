// Pieces of the HF tokenizer reader. Internal to text/.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "text/tokenizer_spec.h"

namespace plait::hf_tokenizer {

// A tree with sorted keys: base/json.h's keeps the file's order and looks keys up one by one, too
// slow for a vocabulary.
using Tree = nlohmann::json;

[[noreturn]] void refuse(const std::string& origin, const std::string& what);

// Errors: kCorruptData, naming `origin` and the key.
const Tree& member(const Tree& object, const char* key, const std::string& origin);
std::string text_member(const Tree& object, const char* key, const std::string& origin);
bool flag_member(const Tree& object, const char* key, bool absent, const std::string& origin);
// Whether the key is absent, null, or an empty string.
bool is_unset(const Tree& object, const char* key);

void read_model(const Tree& model, TokenizerSpec& spec);
void read_normalizer(const Tree& root, TokenizerSpec& spec);
void read_pre_tokenizer(const Tree& root, TokenizerSpec& spec);
void read_post_processor(const Tree& root, TokenizerSpec& spec);
void check_decoder(const Tree& root, const TokenizerSpec& spec);

}  // namespace plait::hf_tokenizer
