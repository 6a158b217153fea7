// Where a trainer's rows come from.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace plait {

// The label of a position that has no target.
inline constexpr int32_t kIgnoredLabel = -100;

// One row as the model reads it: labels[t] is the token that should follow tokens[0..t], or
// kIgnoredLabel. Both have seq_len elements.
struct Row {
  std::span<int32_t> tokens;
  std::span<int32_t> labels;
};

// Rows as a pure function of an index, so that the batch of a step (samples [step * global_batch,
// (step + 1) * global_batch)) depends neither on the layout nor on what was read before, and a
// resumed run goes on exactly. Thread-safe.
class RowSource {
 public:
  virtual ~RowSource() = default;

  virtual int64_t seq_len() const = 0;
  // Samples of one epoch; sample numbers go on beyond it, each epoch in an order of its own.
  virtual int64_t num_train_rows() const = 0;
  virtual int64_t num_val_rows() const = 0;

  // Requires: sample >= 0. Errors: kCorruptData for a token that the vocabulary does not have.
  virtual void train_row(int64_t sample, const Row& row) const = 0;
  // Requires: 0 <= index < num_val_rows(). In the order of the data.
  virtual void val_row(int64_t index, const Row& row) const = 0;

  // Size and checksum of the data, for people and for comparison: equal for equal content wherever
  // its files lie. Reads at most 32 MiB.
  virtual std::string content_id() const = 0;
};

}  // namespace plait
