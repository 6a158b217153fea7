// Rows for fine-tuning from a JSON-lines file: one object a line, {"input_ids": [...], "labels":
// [...]}, aligned as in HF: labels[i] belongs to the token at position i (the shift happens here),
// -100 means no loss. Without labels, every token is a target.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/row_source.h"
#include "data/shuffled_order.h"

namespace plait {

struct JsonlRowsOptions {
  int64_t seq_len = 0;
  uint64_t seed = 0;
  double val_fraction = 0;  // of the lines, from the end
  int64_t vocab_size = 0;   // of the model; 0 for no check
  int32_t pad_token = 0;    // fills short rows; its labels are -100
  bool truncate = false;    // cut rows of more than seq_len + 1 tokens instead of refusing them
};

class JsonlRows final : public RowSource {
 public:
  // Reads the whole file. Errors: kNotFound, kIo; kCorruptData with file and line (not JSON, a key
  // missing or of another type, lists of different lengths, a token outside the vocabulary);
  // kInvalidArgument: no rows, no target in any training row, a row longer than seq_len + 1.
  JsonlRows(const std::string& path, const JsonlRowsOptions& options);

  int64_t seq_len() const override { return options_.seq_len; }
  int64_t num_train_rows() const override { return order_.count(); }
  int64_t num_val_rows() const override { return num_val_rows_; }
  void train_row(int64_t sample, const Row& row) const override;
  void val_row(int64_t index, const Row& row) const override;
  std::string content_id() const override;

 private:
  // All rows one after another, each at most seq_len + 1 tokens.
  struct Rows {
    std::vector<int32_t> tokens;
    std::vector<int32_t> labels;
    std::vector<int64_t> begins = {0};  // and the end of the last
    int64_t count() const { return static_cast<int64_t>(begins.size()) - 1; }
  };
  static Rows read_rows(const std::string& path, const JsonlRowsOptions& options);
  void copy_row(int64_t index, const Row& row) const;

  JsonlRowsOptions options_;
  Rows rows_;
  int64_t num_val_rows_ = 0;
  ShuffledOrder order_;
};

}  // namespace plait
