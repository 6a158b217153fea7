#include "checkpoint_rig.h"

#include <bit>

#include "base/error.h"
#include "base/rng.h"

namespace plait::test {
namespace {

float value_at(uint64_t seed, const std::string& name, int64_t index) {
  return random_normal(seed, hash_name(name), static_cast<uint64_t>(index));
}

uint64_t kind_seed(uint64_t seed, StateKind kind) {
  return seed * 8 + static_cast<uint64_t>(kind);
}

ParameterStore::ShardSource known_values(uint64_t seed) {
  return [seed](const ParamSpec& spec, const Shard& shard, std::span<float> out) {
    for (int64_t i = 0; i < shard.count(); ++i) {
      const int64_t row = shard.row_begin + i / shard.cols;
      const int64_t col = shard.col_begin + i % shard.cols;
      if (row < spec.shape[0]) {
        out[static_cast<size_t>(i)] = value_at(seed, spec.name, row * spec.cols() + col);
      }
    }
  };
}

int64_t count_differences(std::span<const float> a, std::span<const float> b) {
  CHECK_EQ(a.size(), b.size());
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    count += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) ? 1 : 0;
  }
  return count;
}

}  // namespace

ModelConfig rig_model(bool tied) {
  ModelConfig config;
  config.family = ModelFamily::kQwen3;
  config.vocab_size = 37;
  config.hidden_size = 16;
  config.ffn_hidden_size = 24;
  config.num_layers = 4;
  config.num_heads = 4;
  config.num_kv_heads = 4;
  config.head_dim = 4;
  config.max_position_embeddings = 64;
  config.tie_word_embeddings = tied;
  config.qk_norm = true;
  config.qkv_bias = !tied;
  config.o_bias = !tied;
  return config;
}

Layout rig_layout(const RigOptions& options) {
  Layout layout = parse_layout(options.layout);
  layout.stage_layers = options.stage_layers;
  return layout;
}

Rig::Rig(const RigOptions& options, World& world)
    : model_(rig_model(options.tied)),
      context_(rig_layout(options), world),
      store_(model_, context_,
             {.compute_dtype = options.dtype,
              .vocab_multiple = options.vocab_multiple,
              .bucket_count = options.bucket_count}),
      optimizer_(store_, context_, {}, context_.layout().zero >= 1) {}

Tensor& Rig::moment(StateKind kind) {
  return kind == StateKind::kExpAvg ? optimizer_.exp_avg() : optimizer_.exp_avg_sq();
}

void Rig::fill(uint64_t seed) {
  optimizer_.set_weights(store_.build_image(known_values(kind_seed(seed, StateKind::kParam))));
  for (const StateKind kind : {StateKind::kExpAvg, StateKind::kExpAvgSq}) {
    const std::vector<float> image = store_.build_image(known_values(kind_seed(seed, kind)));
    for (const OwnedRange& range : optimizer_.owned()) {
      store_.device().stream().copy_to_device(
          moment(kind).ptr() + range.shard_begin * dtype_size(DType::kF32),
          image.data() + range.flat_begin, range.count * dtype_size(DType::kF32));
    }
  }
}

std::vector<float> Rig::values_of(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  Stream& stream = store_.device().stream();
  if (tensor.dtype() == DType::kF32) {
    stream.copy_to_host(values.data(), tensor.ptr(), tensor.bytes());
    stream.synchronize();
    return values;
  }
  std::vector<BFloat16> narrow(values.size());
  stream.copy_to_host(narrow.data(), tensor.ptr(), tensor.bytes());
  stream.synchronize();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = to_float(narrow[i]);
  }
  return values;
}

int64_t Rig::count_wrong_weights(uint64_t seed) {
  const std::vector<float> image =
      store_.build_image(known_values(kind_seed(seed, StateKind::kParam)));
  int64_t wrong = 0;
  for (const OwnedRange& range : optimizer_.owned()) {
    wrong += count_differences(values_of(optimizer_.master(range)),
                               std::span(image).subspan(static_cast<size_t>(range.flat_begin),
                                                        static_cast<size_t>(range.count)));
  }
  std::vector<float> rounded = image;
  if (store_.weights().dtype() == DType::kBF16) {
    for (float& value : rounded) {
      value = to_float(to_bf16(value));
    }
  }
  return wrong + count_differences(values_of(store_.weights()), rounded);
}

int64_t Rig::count_wrong_moments(uint64_t seed, StateKind kind) {
  const std::vector<float> image = store_.build_image(known_values(kind_seed(seed, kind)));
  const std::vector<float> values = values_of(moment(kind));
  int64_t wrong = 0;
  for (const OwnedRange& range : optimizer_.owned()) {
    const auto count = static_cast<size_t>(range.count);
    wrong +=
        count_differences(std::span(values).subspan(static_cast<size_t>(range.shard_begin), count),
                          std::span(image).subspan(static_cast<size_t>(range.flat_begin), count));
  }
  return wrong;
}

int64_t Rig::count_wrong(uint64_t seed) {
  return count_wrong_weights(seed) + count_wrong_moments(seed, StateKind::kExpAvg) +
         count_wrong_moments(seed, StateKind::kExpAvgSq);
}

void run_rig(const RigOptions& options, const std::function<void(Rig&)>& body) {
  RankRunnerOptions runner;
  runner.ranks = rig_layout(options).world_size();
  runner.device = options.device;
  runner.threads_per_rank = 1;
  run_ranks(runner, [&](World& world) {
    Rig rig(options, world);
    body(rig);
  });
}

void save_rig(const RigOptions& options, const std::string& directory, int64_t step,
              uint64_t seed) {
  run_rig(options, [&](Rig& rig) {
    rig.fill(seed);
    save_checkpoint(rig.state(), {.directory = directory}, {.step = step});
  });
}

}  // namespace plait::test
