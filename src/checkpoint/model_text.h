// The text side of a model: tokenizer, chat template and stop ids, from an HF directory or a GGUF
// file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace plait {

struct ModelText {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null: the model has none
  // All ids that end a sequence, ascending: of generation_config.json, config.json and the
  // tokenizer; of a GGUF file its eos and eot ids.
  std::vector<int32_t> eos_ids;
};

// `path` is a directory or a .gguf file. Errors: as read_hf_tokenizer, GgufFile and ChatTemplate.
ModelText load_model_text(const std::string& path);

}  // namespace plait
