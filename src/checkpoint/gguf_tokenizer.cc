// From a GGUF file's metadata to a tokenizer.
#include "base/error.h"
#include "checkpoint/gguf_import.h"
#include "checkpoint/gguf_parts.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace plait {
namespace {

enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
};

// What tokenizer.ggml.pre stands for: the pre-tokenizer of the HF tokenizer that was converted.
void set_pre_tokenizer(const GgufView& gguf, TokenizerSpec& spec) {
  const std::string pre = gguf.text("tokenizer.ggml.pre").value_or("");
  if (pre == "smollm") {
    spec.splits = {{false, ""}, {true, kGpt2SplitRegex}};
  } else if (pre == "qwen2") {
    spec.splits = {{true, kQwen2SplitRegex}};
    spec.nfc = true;
  } else if (pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3") {
    spec.splits = {{true, kLlama3SplitRegex}};
    spec.ignore_merges = true;
  } else if (pre == "gpt-2") {
    spec.splits = {{true, kGpt2SplitRegex}};
  } else {
    throw_error(
        ErrorCode::kNotImplemented,
        "{}: tokenizer.ggml.pre '{}' is not implemented; smollm, qwen2, llama-bpe and gpt-2 "
        "are",
        gguf.file(), pre);
  }
}

void read_tokens(const GgufView& gguf, TokenizerSpec& spec) {
  const auto tokens = gguf.texts("tokenizer.ggml.tokens");
  const auto types = gguf.integers("tokenizer.ggml.token_type");
  if (!tokens || tokens->empty()) {
    throw_error(ErrorCode::kCorruptData, "{}: tokenizer.ggml.tokens is missing or empty",
                gguf.file());
  }
  if (types && types->size() != tokens->size()) {
    throw_error(ErrorCode::kCorruptData,
                "{}: tokenizer.ggml.token_type has {} entries, tokens has {}", gguf.file(),
                types->size(), tokens->size());
  }
  spec.tokens.resize(tokens->size());
  for (size_t id = 0; id < tokens->size(); ++id) {
    const std::string& token = (*tokens)[id];
    const int64_t type = types ? (*types)[id] : static_cast<int64_t>(kNormal);
    if (type == kControl || type == kUserDefined || type == kUnknown) {
      AddedToken added;
      added.content = token;
      added.id = static_cast<int32_t>(id);
      added.special = type != kUserDefined;
      spec.added.push_back(std::move(added));
    } else if (type != kUnused) {
      spec.tokens[id] = decode_byte_alphabet(token).value_or(token);
    }
  }
}

std::optional<int32_t> token_id(const GgufView& gguf, const char* key, const TokenizerSpec& spec) {
  const std::optional<int64_t> id = gguf.integer(key);
  if (!id) {
    return std::nullopt;
  }
  if (*id < 0 || *id >= std::ssize(spec.tokens)) {
    throw_error(ErrorCode::kCorruptData, "{}: {} is {}; there are {} tokens", gguf.file(), key, *id,
                spec.tokens.size());
  }
  return static_cast<int32_t>(*id);
}

}  // namespace

TokenizerSpec gguf_tokenizer(const GgufView& gguf) {
  TokenizerSpec spec;
  spec.origin = gguf.file();
  const std::string model = gguf.required_text("tokenizer.ggml.model");
  if (model != "gpt2") {
    throw_error(ErrorCode::kNotImplemented,
                "{}: tokenizer.ggml.model '{}'{} is not implemented; gpt2 (byte-level BPE) is",
                gguf.file(), model, model == "llama" ? " (SentencePiece)" : "");
  }
  set_pre_tokenizer(gguf, spec);
  read_tokens(gguf, spec);
  const auto merges = gguf.texts("tokenizer.ggml.merges");
  if (!merges) {
    throw_error(ErrorCode::kCorruptData, "{}: tokenizer.ggml.merges is missing", gguf.file());
  }
  add_merges(*merges, spec);
  spec.bos_id = token_id(gguf, "tokenizer.ggml.bos_token_id", spec);
  spec.eos_id = token_id(gguf, "tokenizer.ggml.eos_token_id", spec);
  spec.pad_id = token_id(gguf, "tokenizer.ggml.padding_token_id", spec);
  // Files without the key are Llama 3's, whose post-processor adds a BOS.
  const bool add_bos = gguf.flag("tokenizer.ggml.add_bos_token").value_or(spec.ignore_merges);
  if (add_bos && spec.bos_id) {
    spec.prefix_ids.push_back(*spec.bos_id);
  }
  if (gguf.flag("tokenizer.ggml.add_eos_token").value_or(false) && spec.eos_id) {
    spec.suffix_ids.push_back(*spec.eos_id);
  }
  spec.chat_template = gguf.text("tokenizer.chat_template").value_or("");
  return spec;
}

TokenizerSpec read_gguf_tokenizer(const std::string& path) {
  const GgufFile file(path);
  return gguf_tokenizer(file.view());
}

}  // namespace plait
