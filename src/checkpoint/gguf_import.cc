#include "checkpoint/gguf_import.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_parts.h"

namespace plait {
namespace {

const GgufTensor& checked_tensor(const ParamSpec& spec, const GgufView& gguf) {
  const std::string name = gguf_tensor_name(spec.name);
  if (name.empty()) {
    throw_error(ErrorCode::kNotImplemented, "{}: the parameter '{}' has no place in a GGUF file",
                gguf.file(), spec.name);
  }
  const GgufTensor& tensor = gguf.at(name);
  if (tensor.shape != spec.shape) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte {}: tensor '{}' has the shape [{}], the metadata asks for [{}]",
                gguf.file(), tensor.file_offset, name, fmt::join(tensor.shape, ", "),
                fmt::join(spec.shape, ", "));
  }
  return tensor;
}

// A vector is one row in the file and a column of the parameter.
void read_vector(const GgufTensor& tensor, const Shard& shard, int64_t interleaved_head_dim,
                 std::span<float> out) {
  const int64_t rows = std::clamp<int64_t>(tensor.count() - shard.row_begin, 0, shard.rows);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = shard.row_begin + i;
    const int64_t place =
        interleaved_head_dim > 0 ? gguf_interleaved_row(row, interleaved_head_dim) : row;
    copy_row_as_f32(tensor, {0, place}, out.subspan(static_cast<size_t>(i), 1));
  }
}

void read_matrix(const GgufTensor& tensor, const Shard& shard, int64_t interleaved_head_dim,
                 std::span<float> out) {
  // Vocabulary padding lies behind the tensor's rows.
  const int64_t rows = std::clamp<int64_t>(tensor.shape[0] - shard.row_begin, 0, shard.rows);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = shard.row_begin + i;
    const int64_t place =
        interleaved_head_dim > 0 ? gguf_interleaved_row(row, interleaved_head_dim) : row;
    copy_row_as_f32(
        tensor, {place, shard.col_begin},
        out.subspan(static_cast<size_t>(i * shard.cols), static_cast<size_t>(shard.cols)));
  }
}

// The packed copy is the only one that counts. Interleaved rows stay within their heads.
void forget_rows(const GgufTensor& tensor, const Shard& shard, int64_t interleaved_head_dim) {
  const int64_t unit = std::max<int64_t>(interleaved_head_dim, 1);
  const int64_t begin = shard.row_begin / unit * unit;
  const int64_t end =
      std::min((shard.row_begin + shard.rows + unit - 1) / unit * unit, tensor.shape[0]);
  if (end > begin) {
    const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
    forget_pages(tensor.bytes.subspan(static_cast<size_t>(begin) * row_bytes,
                                      static_cast<size_t>(end - begin) * row_bytes));
  }
}

}  // namespace

std::string gguf_tensor_name(const std::string& hf_name) {
  static const std::vector<std::pair<std::string, std::string>> kWhole = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"lm_head.weight", "output.weight"},
  };
  static const std::vector<std::pair<std::string, std::string>> kLayer = {
      {"input_layernorm.", "attn_norm."},    {"post_attention_layernorm.", "ffn_norm."},
      {"self_attn.q_proj.", "attn_q."},      {"self_attn.k_proj.", "attn_k."},
      {"self_attn.v_proj.", "attn_v."},      {"self_attn.o_proj.", "attn_output."},
      {"self_attn.q_norm.", "attn_q_norm."}, {"self_attn.k_norm.", "attn_k_norm."},
      {"mlp.gate_proj.", "ffn_gate."},       {"mlp.up_proj.", "ffn_up."},
      {"mlp.down_proj.", "ffn_down."},
  };
  for (const auto& [hf, gguf] : kWhole) {
    if (hf_name == hf) {
      return gguf;
    }
  }
  static constexpr std::string_view kPrefix = "model.layers.";
  const size_t dot = hf_name.find('.', kPrefix.size());
  if (!hf_name.starts_with(kPrefix) || dot == std::string::npos) {
    return {};
  }
  const std::string layer = hf_name.substr(kPrefix.size(), dot - kPrefix.size());
  const std::string rest = hf_name.substr(dot + 1);
  for (const auto& [hf, gguf] : kLayer) {
    if (rest.starts_with(hf)) {
      return "blk." + layer + "." + gguf + rest.substr(hf.size());
    }
  }
  return {};
}

bool gguf_is_interleaved(const std::string& hf_name, const ModelConfig& config) {
  return config.family == ModelFamily::kLlama && (hf_name.find(".q_proj.") != std::string::npos ||
                                                  hf_name.find(".k_proj.") != std::string::npos);
}

int64_t gguf_interleaved_row(int64_t row, int64_t head_dim) {
  const int64_t head = row / head_dim;
  const int64_t inside = row % head_dim;
  const int64_t half = head_dim / 2;
  return head * head_dim + inside % half * 2 + inside / half;
}

GgufImport open_gguf_weights(const std::string& path) {
  const auto file = std::make_shared<const GgufFile>(path);
  const GgufView& gguf = file->view();
  GgufImport result;
  result.config = gguf_config(gguf);
  check_trainable(result.config, path);
  std::set<std::string> used;
  for (const ParamSpec& spec : make_parameter_table(result.config, {})) {
    const GgufTensor& tensor = checked_tensor(spec, gguf);
    used.insert(tensor.name);
    if (spec.shape.size() > 1 && tensor.type != GgufType::kBF16) {
      result.matrix_dtype = DType::kF32;
    }
  }
  for (const GgufTensor& tensor : gguf.tensors()) {
    result.tensor_bytes += static_cast<int64_t>(tensor.bytes.size());
    if (!used.contains(tensor.name) && tensor.name != "rope_freqs.weight") {
      result.unused.push_back(tensor.name);
    }
  }
  result.source = [file, config = result.config](const ParamSpec& spec, const Shard& shard,
                                                 std::span<float> out) {
    const GgufTensor& tensor = file->view().at(gguf_tensor_name(spec.name));
    const int64_t head_dim = gguf_is_interleaved(spec.name, config) ? config.head_dim : 0;
    if (tensor.shape.size() == 1) {
      read_vector(tensor, shard, head_dim, out);
    } else {
      read_matrix(tensor, shard, head_dim, out);
      forget_rows(tensor, shard, head_dim);
    }
  };
  return result;
}

bool is_gguf_file(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    return false;
  }
  const MappedFile file(path);
  static constexpr std::string_view kMagic = "GGUF";
  return file.bytes().size() >= kMagic.size() &&
         std::ranges::equal(file.bytes().first(kMagic.size()), std::as_bytes(std::span(kMagic)));
}

}  // namespace plait
