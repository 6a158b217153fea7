#include "device/cpu/serve/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/round_up.h"
#include "device/cpu/fast/scratch.h"
#include "device/cpu/fast/tasks.h"
#include "device/cpu/float_types.h"
#include "device/cpu/serve/layout.h"

namespace plait::cpu::serve {
namespace {

// Query rows (token by token, the heads of one kv head side by side) of a tile: what the scores of
// a block of keys leave room for in the second-level cache.
constexpr int64_t kTileRows = 48;
// Rows of scores a large power of two apart would fall into the same cache set.
constexpr int64_t kScoreStride = kAttentionBlock + 16;
constexpr int64_t kBlocksAtOnce = kAttentionBlock / kKvBlockTokens;

// Query rows of one run and kv head. The tiles of a short run also split by block of keys, so that
// one long sequence occupies all threads.
struct Task {
  int32_t run = 0;
  int32_t kv_head = 0;
  int32_t first_token = 0, tokens = 0;
  int32_t key_block = -1;  // -1: all, merged on the way
  int32_t key_blocks = 0;  // of the last token
  int64_t partial = 0;     // index of the first row's result, for one key block
};

// Softmax state of rows: weighted sums, largest scores, sums of weights.
struct State {
  float* out;
  float* max;
  float* sum;
};

class Attention {
 public:
  Attention(const IsaKernels& isa, const PagedAttentionArgs& args)
      : isa_(isa),
        args_(args),
        group_(args.heads / args.kv.kv_heads),
        dim_(padded_dim(args.kv)),
        tile_tokens_(std::max<int64_t>(1, kTileRows / group_)),
        bf16_pairs_(isa.bf16_pairs && args.dtype == DType::kBF16 && args.kv.dtype == DType::kBF16) {
  }

  void run(ThreadPool& pool) {
    // Kept for the next call. Through references: the name of a thread_local means another object
    // on each thread.
    static thread_local std::vector<Task> kept_tasks;
    static thread_local std::vector<Task> kept_merges;
    static thread_local fast::Scratch partials;
    std::vector<Task>& tasks = kept_tasks;
    std::vector<Task>& merges = kept_merges;
    tasks.clear();
    merges.clear();
    plan(tasks, merges);
    float* out = partials.floats(partial_rows_ * (dim_ + 2) + 1);
    partial_ = {out, out + partial_rows_ * dim_, out + partial_rows_ * (dim_ + 1)};
    fast::parallel_tasks(pool, static_cast<int64_t>(tasks.size()), [&](int64_t i) {
      // Later tiles see more keys: first the long ones.
      const Task& task = tasks[tasks.size() - 1 - static_cast<size_t>(i)];
      task.key_block < 0 ? attend_all(task) : attend_part(task);
    });
    fast::parallel_tasks(pool, static_cast<int64_t>(merges.size()),
                         [&](int64_t i) { merge_parts(merges[static_cast<size_t>(i)]); });
  }

 private:
  const AttentionRun& run_of(const Task& task) const {
    return args_.runs.as<AttentionRun>()[task.run];
  }

  void plan(std::vector<Task>& tasks, std::vector<Task>& merges) {
    for (int32_t r = 0; r < args_.run_count; ++r) {
      const AttentionRun& run = args_.runs.as<AttentionRun>()[r];
      for (int64_t token = 0; token < run.rows; token += tile_tokens_) {
        for (int32_t head = 0; head < args_.kv.kv_heads; ++head) {
          Task task;
          task.run = r;
          task.kv_head = head;
          task.first_token = static_cast<int32_t>(token);
          task.tokens = static_cast<int32_t>(std::min(tile_tokens_, run.rows - token));
          task.key_blocks = static_cast<int32_t>(
              divide_up(run.first_position + token + task.tokens, kAttentionBlock));
          if (run.rows > tile_tokens_ || task.key_blocks == 1) {
            tasks.push_back(task);
          } else {
            plan_parts(task, tasks);
            merges.push_back(task);
            merges.back().partial = partial_rows_ - task.key_blocks * task.tokens * group_;
          }
        }
      }
    }
  }

  void plan_parts(Task task, std::vector<Task>& tasks) {
    for (task.key_block = 0; task.key_block < task.key_blocks; ++task.key_block) {
      task.partial = partial_rows_;
      partial_rows_ += task.tokens * group_;
      tasks.push_back(task);
    }
  }

  // Scratch of one task: queries, scores, and the states of a block and of all.
  struct Room {
    float* q;
    float* scores;
    State block, total;
    int32_t* visible;
    const char** blocks;
  };

  Room room(int64_t rows) const {
    const int64_t matrix = rows * dim_;
    const int64_t pointers = kBlocksAtOnce * 2;
    float* next = fast::thread_scratch().floats(pointers + 3 * matrix + rows * kScoreStride +
                                                5 * round_up(rows, 16));
    const auto take = [&](int64_t count) {
      float* begin = next;
      next += count;
      return begin;
    };
    Room room{};
    room.blocks = reinterpret_cast<const char**>(take(pointers));
    room.q = take(matrix);
    room.block.out = take(matrix);
    room.total.out = take(matrix);
    room.scores = take(rows * kScoreStride);
    room.block.max = take(round_up(rows, 16));
    room.block.sum = take(round_up(rows, 16));
    room.total.max = take(round_up(rows, 16));
    room.total.sum = take(round_up(rows, 16));
    room.visible = reinterpret_cast<int32_t*>(take(round_up(rows, 16)));
    return room;
  }

  // As they are for products of pairs, else as f32 and scaled.
  void load_queries(const Task& task, float* q) const {
    const int64_t first = run_of(task).first_row + task.first_token;
    with_float_type(args_.dtype, [&]<typename T>(T) {
      for (int64_t i = 0; i < task.tokens * group_; ++i) {
        const T* from = args_.q.as<T>() + (first + i / group_) * args_.q_stride +
                        (task.kv_head * group_ + i % group_) * args_.kv.head_dim;
        if (bf16_pairs_) {
          std::copy_n(from, args_.kv.head_dim, reinterpret_cast<T*>(q) + i * dim_);
          continue;
        }
        for (int64_t d = 0; d < args_.kv.head_dim; ++d) {
          q[i * dim_ + d] = to_float(from[d]) * args_.scale;
        }
      }
    });
  }

  // One block of keys; returns false if the tile's rows see none of it.
  void attend_block(const Task& task, int64_t key_block, const Room& room,
                    const State& state) const {
    const AttentionRun& run = run_of(task);
    const int64_t first_key = key_block * kAttentionBlock;
    const int64_t rows = task.tokens * group_;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t keys = run.first_position + task.first_token + i / group_ + 1 - first_key;
      room.visible[i] = static_cast<int32_t>(std::clamp<int64_t>(keys, 0, kAttentionBlock));
    }
    AttentionBlock block;
    block.keys = room.visible[rows - 1];
    block.block_count = divide_up(block.keys, kKvBlockTokens);
    const int32_t* table = args_.block_tables.as<int32_t>() + run.table * args_.table_stride +
                           first_key / kKvBlockTokens;
    const char* cache = args_.kv_cache.as<char>() + task.kv_head * kv_head_bytes(args_.kv);
    for (int64_t b = 0; b < block.block_count; ++b) {
      room.blocks[b] = cache + table[b] * kv_block_bytes(args_.kv);
    }
    block.q = room.q;
    block.bf16_pairs = bf16_pairs_;
    block.score_scale = bf16_pairs_ ? args_.scale : 1;
    block.rows = rows;
    block.row_stride = dim_;
    block.head_dim = args_.kv.head_dim;
    block.blocks = room.blocks;
    block.values_offset = kv_part_elements(args_.kv) * dtype_size(args_.kv.dtype);
    block.kv_dtype = args_.kv.dtype;
    block.visible = room.visible;
    block.scores = room.scores;
    block.score_stride = kScoreStride;
    block.out = state.out;
    block.max = state.max;
    block.sum = state.sum;
    isa_.attend(block);
  }

  void attend_all(const Task& task) const {
    const int64_t rows = task.tokens * group_;
    const Room here = room(rows);
    load_queries(task, here.q);
    for (int64_t key_block = 0; key_block < task.key_blocks; ++key_block) {
      attend_block(task, key_block, here, key_block == 0 ? here.total : here.block);
      for (int64_t i = 0; key_block > 0 && i < rows; ++i) {
        if (here.visible[i] > 0) {
          merge_row(here.total, i, here.block, i);
        }
      }
    }
    store_rows(task, here.total, 0);
  }

  void attend_part(const Task& task) const {
    const Room here = room(task.tokens * group_);
    load_queries(task, here.q);
    attend_block(task, task.key_block, here, partial_from(task.partial));
  }

  void merge_parts(const Task& task) const {
    const int64_t rows = task.tokens * group_;
    const int64_t first_position = run_of(task).first_position;
    for (int64_t key_block = 1; key_block < task.key_blocks; ++key_block) {
      for (int64_t i = 0; i < rows; ++i) {
        if (first_position + i / group_ + 1 > key_block * kAttentionBlock) {
          merge_row(partial_, task.partial + i, partial_, task.partial + key_block * rows + i);
        }
      }
    }
    store_rows(task, partial_, task.partial);
  }

  State partial_from(int64_t row) const {
    return {partial_.out + row * dim_, partial_.max + row, partial_.sum + row};
  }

  void merge_row(const State& total, int64_t to, const State& block, int64_t from) const {
    const float max = std::max(total.max[to], block.max[from]);
    const float old_factor = std::exp(total.max[to] - max);
    const float new_factor = std::exp(block.max[from] - max);
    total.max[to] = max;
    total.sum[to] = total.sum[to] * old_factor + block.sum[from] * new_factor;
    float* out = total.out + to * dim_;
    const float* add = block.out + from * dim_;
    for (int64_t d = 0; d < args_.kv.head_dim; ++d) {
      out[d] = out[d] * old_factor + add[d] * new_factor;
    }
  }

  void store_rows(const Task& task, const State& state, int64_t row) const {
    const int64_t first = run_of(task).first_row + task.first_token;
    with_float_type(args_.dtype, [&]<typename T>(T) {
      for (int64_t i = 0; i < task.tokens * group_; ++i) {
        T* to = args_.out.as<T>() + (first + i / group_) * args_.out_stride +
                (task.kv_head * group_ + i % group_) * args_.kv.head_dim;
        const float* out = state.out + (row + i) * dim_;
        const float inverse = 1 / state.sum[row + i];
        for (int64_t d = 0; d < args_.kv.head_dim; ++d) {
          to[d] = from_float<T>(out[d] * inverse);
        }
      }
    });
  }

  const IsaKernels& isa_;
  const PagedAttentionArgs& args_;
  int64_t group_;
  int64_t dim_;  // padded
  int64_t tile_tokens_;
  bool bf16_pairs_;
  int64_t partial_rows_ = 0;
  State partial_{};
};

}  // namespace

void paged_attention_with(const IsaKernels& isa, const PagedAttentionArgs& args, ThreadPool& pool) {
  Attention(isa, args).run(pool);
}

}  // namespace plait::cpu::serve
