// Rows cut from a token file.
#pragma once

#include <cstdint>
#include <string>

#include "data/row_source.h"
#include "data/shuffled_order.h"
#include "data/token_file.h"

namespace plait {

struct TokenDatasetOptions {
  int64_t seq_len = 0;
  uint64_t seed = 0;           // of the order of training rows
  double val_fraction = 0.02;  // of the windows, from the end; 0 for no validation set
  int64_t vocab_size = 0;      // of the model: larger tokens are an error; 0 for no check
  // Gives no loss for guessing the first token of a document from the one before.
  bool mask_document_starts = false;
};

// The concatenated documents cut into windows: window i holds tokens [i * seq_len, (i + 1) *
// seq_len) and, as labels, those one further. The last windows are for validation and never trained
// on.
class TokenDataset final : public RowSource {
 public:
  // Errors: TokenFile's; kInvalidArgument: no tokens, seq_len longer than the data allow (says what
  // would work), val_fraction not in [0, 1); kCorruptData: a token the vocabulary does not have
  // (the first 2^27 tokens are looked at here, later ones when they are read).
  TokenDataset(const std::string& path, const TokenDatasetOptions& options);

  int64_t seq_len() const override { return options_.seq_len; }
  int64_t num_train_rows() const override { return order_.count(); }
  int64_t num_val_rows() const override { return num_val_rows_; }
  void train_row(int64_t sample, const Row& row) const override;
  void val_row(int64_t index, const Row& row) const override;
  std::string content_id() const override { return file_.content_id(); }

  const TokenFile& file() const { return file_; }

 private:
  void read_window(int64_t window, const Row& row) const;
  void check_tokens(int64_t begin, std::span<const int32_t> tokens) const;

  TokenDatasetOptions options_;
  TokenFile file_;
  int64_t num_val_rows_ = 0;
  ShuffledOrder order_;
};

}  // namespace plait
