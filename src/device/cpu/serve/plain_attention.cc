#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "device/cpu/float_types.h"
#include "device/cpu/serve/layout.h"
#include "device/cpu/serve/plain_serve.h"

namespace plait::cpu::serve::plain {
namespace {

// What softmax has seen so far of one (row, head).
struct Partial {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;  // of exp(score - max)
  std::vector<float> out;
};

template <typename T, typename C>
class Row {
 public:
  Row(const PagedAttentionArgs& args, const AttentionRun& run, int64_t row)
      : args_(args),
        table_(args.block_tables.as<int32_t>() + run.table * args.table_stride),
        keys_(run.first_position + row + 1),
        q_(args.q.as<T>() + (run.first_row + row) * args.q_stride),
        out_(args.out.as<T>() + (run.first_row + row) * args.out_stride) {}

  void attend(int64_t head) const {
    Partial total;
    for (int64_t begin = 0; begin < keys_; begin += kAttentionBlock) {
      merge(total, block(head, begin, std::min(keys_, begin + kAttentionBlock)));
    }
    for (int64_t i = 0; i < dim(); ++i) {
      out_[head * dim() + i] = from_float<T>(total.out[static_cast<size_t>(i)] / total.sum);
    }
  }

 private:
  int64_t dim() const { return args_.kv.head_dim; }

  // K of the kv head in the cache block that holds token `key`; V follows.
  const C* part(int64_t head, int64_t key) const {
    const int64_t kv_head = head / (args_.heads / args_.kv.kv_heads);
    return (args_.kv_cache + table_[key / kKvBlockTokens] * serve::kv_block_bytes(args_.kv) +
            kv_head * kv_head_bytes(args_.kv))
        .template as<C>();
  }

  float score(int64_t head, int64_t key) const {
    const C* keys = part(head, key);
    float sum = 0;
    for (int64_t i = 0; i < dim(); ++i) {
      sum = std::fma(to_float(q_[head * dim() + i]) * args_.scale,
                     to_float(keys[panel_index<C>(i, key % kKvBlockTokens)]), sum);
    }
    return sum;
  }

  Partial block(int64_t head, int64_t begin, int64_t end) const {
    Partial result;
    std::vector<float> scores;
    for (int64_t key = begin; key < end; ++key) {
      scores.push_back(score(head, key));
      result.max = std::max(result.max, scores.back());
    }
    result.out.assign(static_cast<size_t>(dim()), 0);
    for (int64_t key = begin; key < end; ++key) {
      const float p = std::exp(scores[static_cast<size_t>(key - begin)] - result.max);
      result.sum += p;
      const C* values = part(head, key) + kv_part_elements(args_.kv);
      for (int64_t i = 0; i < dim(); ++i) {
        const int64_t at =
            i / kPanel * kPanel * kKvBlockTokens + panel_index<C>(key % kKvBlockTokens, i % kPanel);
        float& out = result.out[static_cast<size_t>(i)];
        out = std::fma(p, to_float(values[at]), out);
      }
    }
    return result;
  }

  static void merge(Partial& total, const Partial& block) {
    if (total.out.empty()) {
      total = block;
      return;
    }
    const float max = std::max(total.max, block.max);
    const float old_factor = std::exp(total.max - max);
    const float new_factor = std::exp(block.max - max);
    total.max = max;
    total.sum = total.sum * old_factor + block.sum * new_factor;
    for (size_t i = 0; i < total.out.size(); ++i) {
      total.out[i] = total.out[i] * old_factor + block.out[i] * new_factor;
    }
  }

  const PagedAttentionArgs& args_;
  const int32_t* table_;
  int64_t keys_;
  const T* q_;
  T* out_;
};

}  // namespace

void paged_attention(const PagedAttentionArgs& args, ThreadPool& pool) {
  const auto* runs = args.runs.as<AttentionRun>();
  with_float_type(args.dtype, [&]<typename T>(T) {
    with_float_type(args.kv.dtype, [&]<typename C>(C) {
      for (int64_t i = 0; i < args.run_count; ++i) {
        pool.parallel_for(runs[i].rows * args.heads, 1, [&](int64_t begin, int64_t end) {
          for (int64_t task = begin; task < end; ++task) {
            Row<T, C>(args, runs[i], task / args.heads).attend(task % args.heads);
          }
        });
      }
    });
  });
}

}  // namespace plait::cpu::serve::plain
