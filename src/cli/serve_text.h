// The text side of a model that is served: tokenizer, template, defaults of generation_config.json.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "serve/request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace plait {

struct ServeText {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<const ChatTemplate> chat_template;  // null: none
  std::vector<int32_t> eos_token_ids;
  SamplingParams defaults;
};

struct ServeTextOptions {
  std::string model;               // as open_served_model takes it
  std::string chat_template_file;  // in place of the model's; empty: the model's
  bool use_generation_config = true;
};

// A checkpoint of plait train has no tokenizer: its tokens are bytes. Errors: as Tokenizer::load_hf
// and ChatTemplate; kCorruptData for a generation_config.json that cannot be read.
ServeText load_serve_text(const ServeTextOptions& options);

}  // namespace plait
