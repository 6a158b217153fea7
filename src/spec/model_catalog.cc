#include "spec/model_catalog.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/suggest.h"
#include "spec/model_family.h"

namespace plait {
namespace {

// The catalogue is part of the program: what does not parse in it is a bug, found by its test.

// Cells of one line; quotes protect commas.
std::vector<std::string> split_cells(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

std::vector<std::vector<std::string>> read_rows() {
  std::vector<std::vector<std::string>> rows;
  std::string_view text = model_catalog_text();
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    rows.push_back(split_cells(text.substr(0, end)));
    CHECK_EQ(rows.back().size(), rows.front().size());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return rows;
}

// Cells of one model by the name of their column.
class Row {
 public:
  Row(const std::vector<std::string>& columns, const std::vector<std::string>& cells)
      : columns_(columns), cells_(cells) {}

  const std::string& text(const char* column) const {
    const auto found = std::find(columns_.begin(), columns_.end(), column);
    CHECK(found != columns_.end());
    return cells_[static_cast<size_t>(found - columns_.begin())];
  }
  int64_t number(const char* column) const {
    const std::string& cell = text(column);
    int64_t value = -1;
    const auto [stop, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    CHECK(error == std::errc() && stop == cell.data() + cell.size());
    return value;
  }
  bool flag(const char* column) const { return number(column) != 0; }

 private:
  const std::vector<std::string>& columns_;
  const std::vector<std::string>& cells_;
};

ModelFamily family_of(const std::string& name) {
  for (const FamilyInfo& info : kFamilies) {
    if (name == info.model_type) {
      return info.family;
    }
  }
  CHECK(false);
  return ModelFamily::kCustom;
}

ModelConfig config_of(const Row& row) {
  ModelConfig config;
  config.family = family_of(row.text("family"));
  config.num_layers = row.number("num_layers");
  config.hidden_size = row.number("hidden");
  config.num_heads = row.number("heads");
  config.num_kv_heads = row.number("kv_heads");
  config.head_dim = row.number("head_dim");
  config.ffn_hidden_size = row.number("ffn");
  config.vocab_size = row.number("vocab");
  config.max_position_embeddings = row.number("max_position");
  config.tie_word_embeddings = row.flag("tied");
  config.qk_norm = row.flag("qk_norm");
  config.qkv_bias = row.flag("qkv_bias");
  config.o_bias = row.flag("o_bias");
  config.mlp_bias = row.flag("mlp_bias");
  config.gated_mlp = row.flag("gated");
  config.norm = row.text("norm") == "layer" ? NormType::kLayer : NormType::kRms;
  const std::string& position = row.text("position");
  config.position = position == "learned" ? PositionType::kLearned
                    : position == "alibi" ? PositionType::kAlibi
                                          : PositionType::kRope;
  config.embedding_norm = row.flag("embedding_norm");
  config.moe = {.num_experts = row.number("experts"),
                .experts_per_token = row.number("experts_per_token"),
                .ffn_hidden_size = row.number("moe_ffn"),
                .shared_ffn_hidden_size = row.number("shared_ffn"),
                .shared_gate = row.flag("shared_gate"),
                .router_bias = row.flag("router_bias"),
                .first_dense_layers = row.number("first_dense")};
  config.mla = {.q_lora_rank = row.number("q_lora"),
                .kv_lora_rank = row.number("kv_lora"),
                .rope_head_dim = row.number("rope_dim"),
                .nope_head_dim = row.number("nope_dim"),
                .v_head_dim = row.number("v_dim")};
  return config;
}

// What of a name matters: no organisation, no case, no separators (but dots: Qwen2.5).
std::string bare(const std::string& name) {
  std::string result;
  for (const char c : name.substr(name.rfind('/') + 1)) {
    if (c != '-' && c != '_' && c != ' ') {
      result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return result;
}

// The row number; nothing if the catalogue has no such model.
std::optional<size_t> find_row(const std::vector<std::vector<std::string>>& rows,
                               const std::string& name) {
  for (size_t i = 1; i < rows.size(); ++i) {
    if (bare(rows[i].front()) == bare(name)) {
      return i;
    }
  }
  return std::nullopt;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const std::vector<std::string>& row : read_rows()) {
    names.push_back(row.front());
  }
  names.erase(names.begin());
  return names;
}

ModelConfig find_model(const std::string& name_or_path) {
  if (!name_or_path.empty() && exists(name_or_path)) {
    return load_model_config(name_or_path);
  }
  const std::vector<std::vector<std::string>> rows = read_rows();
  if (const std::optional<size_t> row = find_row(rows, name_or_path)) {
    return config_of(Row(rows.front(), rows[*row]));
  }
  std::vector<std::string> names;
  for (const std::string& name : model_names()) {
    names.push_back(bare(name));
  }
  const std::string nearest = nearest_name(bare(name_or_path), names);
  const std::optional<size_t> suggested = find_row(rows, nearest);
  throw_error(
      ErrorCode::kNotFound,
      "model '{}' is neither in the catalogue{} nor a file or directory with a config.json; "
      "known are {}",
      name_or_path.substr(0, 200),
      suggested ? fmt::format(" (did you mean '{}'?)", rows[*suggested].front()) : "",
      fmt::join(model_names(), ", "));
}

std::string model_title(const std::string& name_or_path) {
  const std::vector<std::vector<std::string>> rows = read_rows();
  const std::optional<size_t> row =
      exists(name_or_path) ? std::nullopt : find_row(rows, name_or_path);
  return row ? rows[*row].front() : name_or_path;
}

}  // namespace plait
