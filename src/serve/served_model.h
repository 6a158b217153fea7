// Opens whatever holds a model: an HF directory, a GGUF file, a checkpoint of training.
#pragma once

#include <string>

#include "serve/options.h"

namespace plait {

// `path`: an HF directory, a GGUF file, a checkpoint folder, or a run directory (its newest valid
// checkpoint). Checks that every tensor is there in its shape; reads no weights. Errors: kNotFound,
// kCorruptData, kNotImplemented (an architecture or rope type that plait does not run), named.
ServedModel open_served_model(const std::string& path);

}  // namespace plait
