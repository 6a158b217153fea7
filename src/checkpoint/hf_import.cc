#include "checkpoint/hf_import.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/hf_weights.h"

namespace plait {
namespace {

void check_tensor(const ParamSpec& spec, const HfWeights& weights) {
  const SafeTensor& tensor = weights.at(spec.name);
  if (tensor.shape != spec.shape) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: tensor '{}' has the shape [{}], config.json asks for [{}]",
                tensor.file, tensor.file_offset, spec.name, fmt::join(tensor.shape, ", "),
                fmt::join(spec.shape, ", "));
  }
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF16) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: tensor '{}' is {}; F32, BF16 or F16 is needed (quantised weights are "
                "not supported)",
                tensor.file, tensor.file_offset, spec.name, tensor.dtype_text);
  }
}

// The packed copy is the only one that counts.
void forget_rows(const SafeTensor& tensor, int64_t row_begin, int64_t rows) {
  const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  forget_pages(tensor.bytes.subspan(static_cast<size_t>(row_begin) * row_bytes,
                                    static_cast<size_t>(rows) * row_bytes));
}

bool is_redundant(const std::string& name, const ModelConfig& config) {
  return name.ends_with("rotary_emb.inv_freq") ||
         (config.tie_word_embeddings && name == "lm_head.weight");
}

}  // namespace

HfImport open_hf_weights(const std::string& directory, const ModelConfig& config) {
  check_trainable(config, directory);
  auto weights = std::make_shared<const HfWeights>(directory);
  std::set<std::string> used;
  HfImport result{.source = {}, .matrix_dtype = DType::kBF16, .unused = {}};
  for (const ParamSpec& spec : make_parameter_table(config, {})) {
    check_tensor(spec, *weights);
    used.insert(spec.name);
    if (spec.shape.size() > 1 && weights->at(spec.name).dtype != DType::kBF16) {
      result.matrix_dtype = DType::kF32;
    }
  }
  for (const std::string& name : weights->names()) {
    if (!used.contains(name) && !is_redundant(name, config)) {
      result.unused.push_back(name);
    }
  }
  result.source = [weights](const ParamSpec& spec, const Shard& shard, std::span<float> out) {
    // Vocabulary padding lies behind the tensor's rows.
    const int64_t rows = std::clamp<int64_t>(spec.shape[0] - shard.row_begin, 0, shard.rows);
    if (rows > 0) {
      copy_as_f32(weights->at(spec.name),
                  {.row_begin = shard.row_begin,
                   .rows = rows,
                   .col_begin = shard.col_begin,
                   .cols = shard.cols},
                  out.first(static_cast<size_t>(rows * shard.cols)));
      forget_rows(weights->at(spec.name), shard.row_begin, rows);
    }
  };
  return result;
}

}  // namespace plait
