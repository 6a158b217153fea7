#include "data/token_dataset.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace plait {
namespace {

constexpr int64_t kTokensCheckedFirst = int64_t{1} << 27;
constexpr int64_t kTokensCheckedAtOnce = int64_t{1} << 16;

// Windows of the file, at least as many as the options need.
int64_t count_windows(const TokenFile& file, const TokenDatasetOptions& options) {
  if (options.seq_len < 1) {
    throw_error(ErrorCode::kInvalidArgument, "seq_len {} must be at least 1", options.seq_len);
  }
  if (!(options.val_fraction >= 0 && options.val_fraction < 1)) {
    throw_error(ErrorCode::kInvalidArgument, "val_fraction {} must be at least 0 and below 1",
                options.val_fraction);
  }
  const int64_t tokens = file.num_tokens();
  if (tokens == 0) {
    throw_error(ErrorCode::kInvalidArgument, "'{}' holds no tokens; build it again from text",
                file.bin_path());
  }
  const int64_t needed = options.val_fraction > 0 ? 2 : 1;
  const int64_t windows = (tokens - 1) / options.seq_len;
  if (windows < needed) {
    const int64_t longest = (tokens - 1) / needed;
    throw_error(ErrorCode::kInvalidArgument,
                "'{}' holds {} tokens, too few for {} of seq_len {}; {}", file.bin_path(), tokens,
                needed == 1 ? "one row" : "a training and a validation row", options.seq_len,
                longest < 1 ? "more text is needed"
                            : fmt::format("seq_len {} or less would work", longest));
  }
  return windows;
}

}  // namespace

TokenDataset::TokenDataset(const std::string& path, const TokenDatasetOptions& options)
    : options_(options),
      file_(path),
      num_val_rows_(validation_count(count_windows(file_, options), options.val_fraction)),
      order_(options.seed, count_windows(file_, options) - num_val_rows_) {
  std::vector<int32_t> chunk;
  const int64_t checked = std::min(file_.num_tokens(), kTokensCheckedFirst);
  for (int64_t begin = 0; options_.vocab_size > 0 && begin < checked;
       begin += kTokensCheckedAtOnce) {
    chunk.resize(static_cast<size_t>(std::min(checked - begin, kTokensCheckedAtOnce)));
    file_.read(begin, chunk);
    check_tokens(begin, chunk);
  }
}

void TokenDataset::train_row(int64_t sample, const Row& row) const {
  read_window(order_.item(sample), row);
}

void TokenDataset::val_row(int64_t index, const Row& row) const {
  CHECK(index >= 0 && index < num_val_rows_);
  read_window(num_train_rows() + index, row);
}

void TokenDataset::read_window(int64_t window, const Row& row) const {
  const int64_t length = options_.seq_len;
  CHECK_EQ(static_cast<int64_t>(row.tokens.size()), length);
  CHECK_EQ(static_cast<int64_t>(row.labels.size()), length);
  const int64_t begin = window * length;
  file_.read(begin, row.tokens);
  file_.read(begin + 1, row.labels);
  if (options_.vocab_size > 0) {
    check_tokens(begin, row.tokens);
    check_tokens(begin + 1, row.labels);
  }
  if (!options_.mask_document_starts) {
    return;
  }
  // Labels are tokens begin + 1 to begin + length.
  for (int64_t document = file_.document_of(begin) + 1; document < file_.num_documents();
       ++document) {
    const int64_t start = file_.index().document_begin(document);
    if (start > begin + length) {
      break;
    }
    if (start > begin) {
      row.labels[static_cast<size_t>(start - begin - 1)] = kIgnoredLabel;
    }
  }
}

void TokenDataset::check_tokens(int64_t begin, std::span<const int32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= options_.vocab_size) {
      const int64_t token = begin + static_cast<int64_t>(i);
      throw_error(
          ErrorCode::kCorruptData,
          "{}: byte {}: token {} is {}, but the model's vocab_size is {}; use the model's own "
          "tokenizer or a larger vocabulary (byte tokens need {})",
          file_.bin_path(), token * token_size(file_.type()), token, tokens[i], options_.vocab_size,
          kByteVocabSize);
    }
  }
}

}  // namespace plait
