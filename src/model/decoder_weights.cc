#include "model/decoder_weights.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "parallel/pipeline/stage_link.h"
#include "spec/parameter_table.h"

namespace plait {
namespace {

constexpr int64_t kStagingBytes = 16 << 20;
constexpr int64_t kReadGrain = 64;  // rows, of a thread

class Loader {
 public:
  Loader(const ModelConfig& config, const ParallelContext& context,
         const ParameterStore::ShardSource& source, const DecoderLoadOptions& options)
      : context_(context),
        source_(source),
        options_(options),
        device_(context.device()),
        readers_({.num_threads = std::max(1, options.threads), .spin_us = 0}),
        table_(make_parameter_table(config, {.tp = context.layout().tp})) {
    for (const ParamSpec& spec : table_) {
      by_name_.emplace(spec.name, &spec);
    }
  }

  int64_t bytes() const { return bytes_; }
  const ParamSpec* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  Shard shard_of(const ParamSpec& spec) const {
    return tp_shard(spec, context_.layout().tp, context_.tp().rank());
  }

  // The shards of all names below each other.
  PackedMatrix matrix(const std::vector<std::string>& names) {
    PackedWeight weight{.format = options_.format};
    for (const std::string& name : names) {
      const Shard shard = shard_of(*by_name_.at(name));
      weight.n += shard.rows;
      weight.k = shard.cols;
    }
    PackedMatrix packed(device_, weight);
    int64_t row_begin = 0;
    for (const std::string& name : names) {
      const ParamSpec& spec = *by_name_.at(name);
      pack_rows(spec, packed, row_begin);
      row_begin += shard_of(spec).rows;
    }
    bytes_ += packed.bytes();
    if (options_.progress) {
      options_.progress(bytes_);
    }
    return packed;
  }

  // The shards of all names behind each other, f32; empty if the model has none of them.
  Tensor vector(const std::vector<std::string>& names) {
    std::vector<float> values;
    for (const std::string& name : names) {
      if (const ParamSpec* spec = find(name)) {
        const Shard shard = shard_of(*spec);
        const size_t begin = values.size();
        values.resize(begin + static_cast<size_t>(shard.count()));
        source_(*spec, shard, std::span(values).subspan(begin));
      }
    }
    return upload(values);
  }

  // The bias of a row-parallel product.
  Tensor summed_bias(const std::string& name) {
    const ParamSpec* spec = find(name);
    if (spec == nullptr) {
      return {};
    }
    std::vector<float> values(static_cast<size_t>(spec->count()));
    if (context_.tp().rank() == 0) {
      source_(*spec, shard_of(*spec), values);
    }
    return upload(values);
  }

 private:
  Tensor upload(const std::vector<float>& values) {
    if (values.empty()) {
      return {};
    }
    Tensor tensor(device_, {std::ssize(values)}, DType::kF32, MemoryCategory::kWeights);
    device_.stream().copy_to_device(tensor.ptr(), values.data(), tensor.bytes());
    bytes_ += tensor.bytes();
    return tensor;
  }

  void pack_rows(const ParamSpec& spec, const PackedMatrix& packed, int64_t row_begin) {
    const Shard shard = shard_of(spec);
    const int64_t row_bytes = shard.cols * dtype_size(DType::kF32);
    const int64_t most = std::clamp<int64_t>(kStagingBytes / row_bytes, 1, shard.rows);
    host_.resize(static_cast<size_t>(most * shard.cols));
    if (!staging_ || staging_.bytes() < most * row_bytes) {
      staging_ = Tensor(device_, {most * shard.cols}, DType::kF32, MemoryCategory::kWorkspace);
    }
    for (int64_t begin = 0; begin < shard.rows; begin += most) {
      const int64_t rows = std::min(most, shard.rows - begin);
      const Shard part{.row_begin = shard.row_begin + begin,
                       .rows = rows,
                       .col_begin = shard.col_begin,
                       .cols = shard.cols};
      const std::span<float> values = std::span(host_).first(static_cast<size_t>(part.count()));
      read_rows(spec, part, values);
      device_.stream().copy_to_device(staging_.ptr(), values.data(), rows * row_bytes);
      device_.kernels().pack_weight(device_.stream(), {.source = staging_.ptr(),
                                                       .packed = packed.ptr(),
                                                       .weight = packed.weight(),
                                                       .row_begin = row_begin + begin,
                                                       .rows = rows,
                                                       .source_stride = shard.cols});
      device_.stream().synchronize();
    }
  }

  void read_rows(const ParamSpec& spec, const Shard& part, std::span<float> values) {
    // Rows of the vocabulary padding are left out by the source.
    if (part.row_begin + part.rows > spec.shape[0]) {
      std::ranges::fill(values, 0.0F);
    }
    std::mutex mutex;
    std::exception_ptr error;
    readers_.parallel_for(part.rows, kReadGrain, [&](int64_t begin, int64_t end) {
      const Shard piece{.row_begin = part.row_begin + begin,
                        .rows = end - begin,
                        .col_begin = part.col_begin,
                        .cols = part.cols};
      try {
        source_(spec, piece,
                values.subspan(static_cast<size_t>(begin * part.cols),
                               static_cast<size_t>(piece.count())));
      } catch (const Error&) {
        const std::scoped_lock lock(mutex);
        error = std::current_exception();
      }
    });
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  }

  const ParallelContext& context_;
  const ParameterStore::ShardSource& source_;
  const DecoderLoadOptions& options_;
  Device& device_;
  ThreadPool readers_;
  std::vector<ParamSpec> table_;
  std::unordered_map<std::string, const ParamSpec*> by_name_;
  std::vector<float> host_;
  Tensor staging_;
  int64_t bytes_ = 0;
};

DecoderLayerWeights load_layer(Loader& loader, int64_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  const auto all = [](const std::string& base, const std::vector<std::string>& parts,
                      const std::string& suffix) {
    std::vector<std::string> names;
    for (const std::string& part : parts) {
      names.push_back(base + part + suffix);
    }
    return names;
  };
  const std::vector<std::string> qkv = {"q_proj", "k_proj", "v_proj"};
  const std::vector<std::string> gate_up = {"gate_proj", "up_proj"};
  DecoderLayerWeights weights;
  weights.norm1 = loader.vector({prefix + "input_layernorm.weight"});
  weights.qkv = loader.matrix(all(attention, qkv, ".weight"));
  weights.qkv_bias = loader.vector(all(attention, qkv, ".bias"));
  weights.q_norm = loader.vector({attention + "q_norm.weight"});
  weights.k_norm = loader.vector({attention + "k_norm.weight"});
  weights.o = loader.matrix({attention + "o_proj.weight"});
  weights.o_bias = loader.summed_bias(attention + "o_proj.bias");
  weights.norm2 = loader.vector({prefix + "post_attention_layernorm.weight"});
  weights.gate_up = loader.matrix(all(mlp, gate_up, ".weight"));
  weights.gate_up_bias = loader.vector(all(mlp, gate_up, ".bias"));
  weights.down = loader.matrix({mlp + "down_proj.weight"});
  weights.down_bias = loader.summed_bias(mlp + "down_proj.bias");
  return weights;
}

}  // namespace

PackedMatrix::PackedMatrix(Device& device, const PackedWeight& weight)
    : weight_(weight),
      buffer_(std::make_shared<Buffer>(device, device.kernels().packed_weight_bytes(weight),
                                       MemoryCategory::kWeights)) {}

DecoderWeights load_decoder_weights(const ModelConfig& config, const ParallelContext& context,
                                    const ParameterStore::ShardSource& source,
                                    const DecoderLoadOptions& options) {
  const StageLink link(context);
  Loader loader(config, context, source, options);
  DecoderWeights weights;
  const std::string embedding = "model.embed_tokens.weight";
  weights.vocab_begin = loader.shard_of(*loader.find(embedding)).row_begin;
  if (link.first()) {
    weights.embedding = loader.matrix({embedding});
  }
  const LayerRange range = split_layers(
      context.layout(), config.num_layers)[static_cast<size_t>(context.coordinate(Axis::kPp))];
  for (int64_t layer = range.begin; layer < range.end; ++layer) {
    weights.layers.push_back(load_layer(loader, layer));
  }
  if (link.last()) {
    weights.final_norm = loader.vector({"model.norm.weight"});
    if (!config.tie_word_embeddings) {
      weights.head = loader.matrix({"lm_head.weight"});
    } else {
      weights.head = link.first() ? weights.embedding : loader.matrix({embedding});
    }
  }
  weights.bytes = loader.bytes();
  return weights;
}

int64_t decoder_weight_bytes(const ModelConfig& config, const Layout& layout, WeightFormat format) {
  const std::vector<ParamSpec> table = make_parameter_table(config, {.tp = layout.tp});
  const std::vector<LayerRange> stages = split_layers(layout, config.num_layers);
  int64_t largest = 0;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const LayerRange& range = stages[static_cast<size_t>(stage)];
    const bool first = stage == 0;
    const bool last = stage == layout.pp - 1;
    int64_t bytes = 0;
    for (const ParamSpec& spec : table) {
      const bool tied_head = config.tie_word_embeddings && last;
      const bool here = spec.section == Section::kLayer
                            ? spec.layer >= range.begin && spec.layer < range.end
                        : spec.section == Section::kEmbedding ? first || tied_head
                                                              : last;
      const bool matrix = spec.shape.size() > 1;
      const double size = weight_format_size(matrix ? format : WeightFormat::kF32);
      const int64_t count = here ? tp_shard(spec, layout.tp, 0).count() : 0;
      bytes += static_cast<int64_t>(static_cast<double>(count) * size);
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

}  // namespace plait
