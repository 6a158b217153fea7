#include "data/jsonl_rows.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "base/json_reader.h"

namespace plait {
namespace {

struct ListOptions {
  const char* key;
  bool labels;  // -100 is allowed
  int64_t vocab_size;
};

std::vector<int32_t> read_list(const JsonReader& reader, const ListOptions& options) {
  const Json* list = reader.find(options.key);
  if (list == nullptr) {
    reader.missing(options.key);
  }
  if (!list->is_array()) {
    reader.wrong_type(options.key, *list, "a list of token ids");
  }
  const int64_t limit = options.vocab_size > 0 ? options.vocab_size : int64_t{INT32_MAX} + 1;
  std::vector<int32_t> values;
  values.reserve(list->size());
  for (const Json& entry : *list) {
    const int64_t value = reader.to_integer(options.key, entry);
    const bool ignored = options.labels && value == kIgnoredLabel;
    if (!ignored && (value < 0 || value >= limit)) {
      throw_error(ErrorCode::kCorruptData, "{}: {} holds {}, but token ids are 0 to {}{}",
                  reader.origin(), options.key, value, limit - 1,
                  options.labels ? ", or -100 for no loss" : "");
    }
    values.push_back(static_cast<int32_t>(value));
  }
  return values;
}

}  // namespace

JsonlRows::Rows JsonlRows::read_rows(const std::string& path, const JsonlRowsOptions& options) {
  if (options.seq_len < 1) {
    throw_error(ErrorCode::kInvalidArgument, "seq_len {} must be at least 1", options.seq_len);
  }
  if (!(options.val_fraction >= 0 && options.val_fraction < 1)) {
    throw_error(ErrorCode::kInvalidArgument, "val_fraction {} must be at least 0 and below 1",
                options.val_fraction);
  }
  const std::string content = read_file(path);
  std::string_view rest = content;
  Rows rows;
  for (int64_t line_number = 1; !rest.empty(); ++line_number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    const std::string origin = fmt::format("{}: line {}", path, line_number);
    const Json json = parse_json(line, origin);
    const JsonReader reader(json, origin);
    std::vector<int32_t> tokens =
        read_list(reader, {.key = "input_ids", .labels = false, .vocab_size = options.vocab_size});
    std::vector<int32_t> labels =
        reader.find("labels") == nullptr
            ? tokens
            : read_list(reader,
                        {.key = "labels", .labels = true, .vocab_size = options.vocab_size});
    if (labels.size() != tokens.size()) {
      throw_error(ErrorCode::kCorruptData,
                  "{}: {} input_ids, but {} labels; one for each is needed", origin, tokens.size(),
                  labels.size());
    }
    const auto longest = static_cast<size_t>(options.seq_len) + 1;
    if (tokens.size() > longest && !options.truncate) {
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: {} tokens do not fit into seq_len {} (one more than it is the most); raise "
                  "seq_len to {} or have long rows cut",
                  origin, tokens.size(), options.seq_len, tokens.size() - 1);
    }
    const auto kept = static_cast<std::ptrdiff_t>(std::min(tokens.size(), longest));
    rows.tokens.insert(rows.tokens.end(), tokens.begin(), tokens.begin() + kept);
    rows.labels.insert(rows.labels.end(), labels.begin(), labels.begin() + kept);
    rows.begins.push_back(static_cast<int64_t>(rows.tokens.size()));
  }
  if (rows.count() == 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "'{}' holds no rows; each line is an object with input_ids and labels", path);
  }
  return rows;
}

JsonlRows::JsonlRows(const std::string& path, const JsonlRowsOptions& options)
    : options_(options),
      rows_(read_rows(path, options)),
      num_val_rows_(validation_count(rows_.count(), options.val_fraction)),
      order_(options.seed, rows_.count() - num_val_rows_) {
  // The label at a row's first position has nothing before it to be guessed from.
  for (int64_t row = 0; row < order_.count(); ++row) {
    const int64_t end = rows_.begins[static_cast<size_t>(row) + 1];
    for (int64_t i = rows_.begins[static_cast<size_t>(row)] + 1; i < end; ++i) {
      if (rows_.labels[static_cast<size_t>(i)] != kIgnoredLabel) {
        return;
      }
    }
  }
  throw_error(ErrorCode::kInvalidArgument,
              "'{}': no training row has a target; labels of -100 give no loss, and neither does a "
              "row's first label",
              path);
}

void JsonlRows::train_row(int64_t sample, const Row& row) const {
  copy_row(order_.item(sample), row);
}

void JsonlRows::val_row(int64_t index, const Row& row) const {
  CHECK(index >= 0 && index < num_val_rows_);
  copy_row(num_train_rows() + index, row);
}

std::string JsonlRows::content_id() const {
  uint32_t crc = crc32c(std::as_bytes(std::span(rows_.tokens)));
  crc = crc32c(std::as_bytes(std::span(rows_.labels)), crc);
  crc = crc32c(std::as_bytes(std::span(rows_.begins)), crc);
  return fmt::format("{} rows of {} tokens in all, checksum {:08x}", rows_.count(),
                     rows_.tokens.size(), crc);
}

void JsonlRows::copy_row(int64_t index, const Row& row) const {
  CHECK_EQ(static_cast<int64_t>(row.tokens.size()), options_.seq_len);
  CHECK_EQ(static_cast<int64_t>(row.labels.size()), options_.seq_len);
  const auto begin = static_cast<size_t>(rows_.begins[static_cast<size_t>(index)]);
  const auto end = static_cast<size_t>(rows_.begins[static_cast<size_t>(index) + 1]);
  for (size_t t = 0; t < row.tokens.size(); ++t) {
    row.tokens[t] = begin + t < end ? rows_.tokens[begin + t] : options_.pad_token;
    row.labels[t] = begin + t + 1 < end ? rows_.labels[begin + t + 1] : kIgnoredLabel;
  }
}

}  // namespace plait
