// What the scheduler's rank tells the others before each step: as few numbers as possible, because
// it stands in the way of every token. Block tables are sent as what was added since the last step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/decoder.h"
#include "serve/scheduler.h"

namespace plait {

enum class StepKind : int32_t {
  kStep,
  kIdle,  // nothing to do; shows that the scheduler lives
  kStop,  // the last message
};

// i32: length of all, kind, entries, want_logits; then for each entry: slot, flags, begin, count,
// new blocks, their numbers, the tokens.
class StepMessage {
 public:
  static constexpr int64_t kHeader = 4;

  // Marks the blocks of the sequences as sent.
  void encode_step(std::span<const ScheduledTokens> items, bool want_logits);
  void encode(StepKind kind);
  std::span<const int32_t> words() const { return words_; }

 private:
  std::vector<int32_t> words_;
};

// The other side, on every rank: keeps the block tables and turns messages into batches.
class StepDecoder {
 public:
  struct Limits {
    int64_t max_num_seqs = 0;
    int64_t max_rows = 0;
    int64_t max_positions = 0;
  };
  explicit StepDecoder(const Limits& limits);

  // Requires: a message of kind kStep. The batch refers to this object, until the next call.
  DecoderBatch decode(std::span<const int32_t> words);

  // Words of the longest message.
  static int64_t max_words(const Limits& limits);

 private:
  Limits limits_;
  std::vector<std::vector<int32_t>> tables_;  // by slot
  std::vector<int32_t> tokens_, positions_, slots_, block_tables_, sampled_rows_;
  std::vector<int32_t> run_slots_;
  std::vector<AttentionRun> runs_;
};

}  // namespace plait
