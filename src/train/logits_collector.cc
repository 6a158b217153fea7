#include "train/logits_collector.h"

#include <cstring>

#include "base/error.h"
#include "op/elementwise.h"

namespace plait {

LogitsCollector::LogitsCollector(Engine& engine) : engine_(engine) {
  engine_.model().set_logits_hook([this](int microbatch, const Tensor& logits) {
    Device& device = logits.device();
    Tensor values = logits;
    if (logits.dtype() != DType::kF32) {
      values = Tensor(device, logits.shape(), DType::kF32, MemoryCategory::kWorkspace);
      cast(logits, values);
    }
    std::vector<float>& host = logits_[microbatch];
    host.resize(static_cast<size_t>(values.count()));
    device.stream().copy_to_host(host.data(), values.ptr(), values.bytes());
    device.stream().synchronize();
  });
}

LogitsCollector::~LogitsCollector() {
  engine_.model().set_logits_hook({});
}

void LogitsCollector::request(int64_t row, int64_t position) {
  requests_.push_back({row, position});
}

std::vector<std::vector<float>> LogitsCollector::gather() {
  // Each head rank sends, for every request that its replica holds: request index, tp rank, values.
  const BatchConfig& batch = engine_.config().batch;
  const ParallelContext& context = engine_.context();
  const int64_t rows_per_replica = engine_.num_microbatches() * batch.micro_batch_size;
  std::string mine;
  for (size_t i = 0; i < requests_.size(); ++i) {
    const Request& request = requests_[i];
    if (request.row / rows_per_replica != context.coordinate(Axis::kDp) || logits_.empty()) {
      continue;
    }
    const int64_t local = request.row % rows_per_replica;
    const std::vector<float>& values = logits_.at(static_cast<int>(local / batch.micro_batch_size));
    const int64_t tokens = batch.micro_batch_size * batch.seq_len;
    const int64_t cols = static_cast<int64_t>(values.size()) / tokens;
    const int64_t token = local % batch.micro_batch_size * batch.seq_len + request.position;
    const int64_t header[] = {static_cast<int64_t>(i), context.coordinate(Axis::kTp), cols};
    mine.append(reinterpret_cast<const char*>(header), sizeof(header));
    mine.append(reinterpret_cast<const char*>(values.data() + token * cols),
                static_cast<size_t>(cols) * sizeof(float));
  }
  const int64_t vocab = engine_.config().model.vocab_size;
  std::vector<std::vector<float>> result(requests_.size(),
                                         std::vector<float>(static_cast<size_t>(vocab)));
  for (const std::string& bytes : context.all().gather_bytes(mine)) {
    for (size_t at = 0; at < bytes.size();) {
      int64_t header[3];
      std::memcpy(header, bytes.data() + at, sizeof(header));
      at += sizeof(header);
      const int64_t begin = header[1] * header[2];
      const int64_t count = std::clamp<int64_t>(vocab - begin, 0, header[2]);
      std::memcpy(result[static_cast<size_t>(header[0])].data() + begin, bytes.data() + at,
                  static_cast<size_t>(count) * sizeof(float));
      at += static_cast<size_t>(header[2]) * sizeof(float);
    }
  }
  requests_.clear();
  return result;
}

}  // namespace plait
