// Models by name: catalog/models.csv, built in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/model_config.h"

namespace plait {

// Names of the catalogue, in its order.
std::vector<std::string> model_names();

// The shape of a catalogue model, or what load_model_config reads from an HF directory or a
// config.json. Case, dashes, underscores, blanks and an organisation in front do not matter:
// "qwen/qwen3_8b" is Qwen3-8B. A path that exists wins over a name. Errors: kNotFound with the
// nearest name; those of load_model_config.
ModelConfig find_model(const std::string& name_or_path);

// Whether RoPE, epsilon and token ids are known as well: those of some catalogue models are
// ModelConfig's defaults, which do for sizes and times.
bool knows_constants(const std::string& name_or_path);

// The name as the catalogue spells it, or the path as given: for output.
std::string model_title(const std::string& name_or_path);

// The text of catalog/models.csv.
std::string_view model_catalog_text();

}  // namespace plait
