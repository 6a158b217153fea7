#include "parallel/parameter_store.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"

namespace plait {

ParameterStore::ParameterStore(const ModelConfig& config, const ParallelContext& context,
                               const ParameterStoreOptions& options) {
  const Layout& layout = context.layout();
  table_ =
      make_parameter_table(config, {.tp = layout.tp, .vocab_multiple = options.vocab_multiple});
  flat_ = make_flat_layout(table_, config, layout,
                           {.pipeline_stage = context.coordinate(Axis::kPp),
                            .tp_rank = context.coordinate(Axis::kTp),
                            .bucket_count = options.bucket_count});
  Device& device = context.device();
  weights_ = Tensor(device, {flat_.count}, options.compute_dtype, MemoryCategory::kWeights);
  grads_ = Tensor(device, {flat_.count}, DType::kF32, MemoryCategory::kGradients);
  device.stream().zero(weights_.ptr(), weights_.bytes());
  device.stream().zero(grads_.ptr(), grads_.bytes());
  begun_.assign(flat_.params.size(), 1);
}

bool Parameter::begin() {
  const bool first = !begun_.empty() && begun_.front() == 0;
  std::fill(begun_.begin(), begun_.end(), uint8_t{1});
  return first;
}

Tensor& Parameter::grad_to_add() {
  if (begin()) {
    grad_.device().stream().zero(grad_.ptr(), grad_.bytes());
  }
  return grad_;
}

Tensor& Parameter::grad_to_write(bool& accumulate) {
  accumulate = !begin();
  return grad_;
}

void ParameterStore::begin_grads() {
  std::fill(begun_.begin(), begun_.end(), uint8_t{0});
}

void ParameterStore::check_grads() const {
  for (size_t i = 0; i < begun_.size(); ++i) {
    CHECK(begun_[i] != 0);
  }
}

const LocalParam* ParameterStore::locate(const std::string& name, int chunk) const {
  for (const LocalParam& param : flat_.params) {
    if (param.chunk == chunk && table_[static_cast<size_t>(param.spec_index)].name == name) {
      return &param;
    }
  }
  return nullptr;
}

Parameter ParameterStore::view(const LocalParam& param, int64_t rows, size_t num_params) const {
  const ParamSpec& spec = table_[static_cast<size_t>(param.spec_index)];
  std::vector<int64_t> shape = {rows};
  if (spec.shape.size() > 1) {
    shape.push_back(param.shard.cols);
  }
  const auto index = static_cast<size_t>(&param - flat_.params.data());
  return {weights_.view(param.offset, shape), grads_.view(param.offset, shape),
          std::span(begun_).subspan(index, num_params)};
}

Parameter ParameterStore::find(const std::string& name, int chunk) const {
  const LocalParam* param = locate(name, chunk);
  return param == nullptr ? Parameter{} : view(*param, param->shard.rows, 1);
}

Parameter ParameterStore::find_fused(const std::vector<std::string>& names, int chunk) const {
  const LocalParam* first = locate(names.front(), chunk);
  if (first == nullptr) {
    return {};
  }
  int64_t rows = 0;
  for (const std::string& name : names) {
    const LocalParam* param = locate(name, chunk);
    CHECK(param != nullptr);
    CHECK_EQ(param->offset, first->offset + rows * first->shard.cols);
    CHECK_EQ(param - first, static_cast<std::ptrdiff_t>(&name - names.data()));
    rows += param->shard.rows;
  }
  return view(*first, rows, names.size());
}

std::vector<float> ParameterStore::build_image(const ShardSource& fill) const {
  std::vector<float> image(static_cast<size_t>(flat_.count), 0.0F);
  for (const LocalParam& param : flat_.params) {
    fill(table_[static_cast<size_t>(param.spec_index)], param.shard,
         std::span(image).subspan(static_cast<size_t>(param.offset),
                                  static_cast<size_t>(param.shard.count())));
  }
  return image;
}

ParameterStore::ShardSource random_initial_values(uint64_t seed, double stddev) {
  return [seed, stddev](const ParamSpec& spec, const Shard& shard, std::span<float> out) {
    if (spec.init == Init::kZeros) {
      return;
    }
    const uint64_t stream = hash_name(spec.name);
    const int64_t logical_rows = spec.shape[0];
    for (int64_t r = 0; r < shard.rows; ++r) {
      const int64_t row = shard.row_begin + r;
      if (row >= logical_rows) {
        break;
      }
      for (int64_t c = 0; c < shard.cols; ++c) {
        const auto index = static_cast<uint64_t>(row * spec.cols() + shard.col_begin + c);
        out[static_cast<size_t>(r * shard.cols + c)] =
            spec.init == Init::kOnes
                ? 1.0F
                : random_normal(seed, stream, index) * static_cast<float>(stddev);
      }
    }
  };
}

}  // namespace plait
