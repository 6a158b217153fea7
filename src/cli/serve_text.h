// The text side of a model that is served, with the sampling defaults of generation_config.json.
#pragma once

#include <string>

#include "checkpoint/model_text.h"
#include "serve/request.h"

namespace plait {

struct ServeText {
  ModelText model;
  SamplingParams defaults;
};

struct ServeTextOptions {
  std::string model;               // as open_served_model takes it
  std::string chat_template_file;  // in place of the model's; empty: the model's
  bool use_generation_config = true;
};

// A directory without tokenizer.json, as a checkpoint of plait train, has bytes as tokens. Errors:
// as load_model_text; kCorruptData for a generation_config.json that cannot be read.
ServeText load_serve_text(const ServeTextOptions& options);

}  // namespace plait
