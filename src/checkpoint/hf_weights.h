// The weights of an HF model directory: model.safetensors, or the shards that
// model.safetensors.index.json lists.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace plait {

// All shards stay mapped. Thread-safe once built.
class HfWeights {
 public:
  // As HF, takes model.safetensors where it exists and the index otherwise.
  // Errors: kNotFound (neither file; a shard is missing), kCorruptData (a shard that does not
  // parse; an index that lists a tensor twice or in a shard without it; a tensor that the index
  // does not list; a shard name with a folder in it), each naming the file.
  explicit HfWeights(const std::string& directory);

  const SafeTensor* find(const std::string& name) const;  // null if absent
  const SafeTensor& at(const std::string& name) const;    // Errors: kCorruptData, named
  std::vector<std::string> names() const;                 // ascending
  // The single file or the index, for messages.
  const std::string& source() const { return source_; }

 private:
  void open_index(const std::string& directory);

  std::string source_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafeTensor*> tensors_;
};

}  // namespace plait
