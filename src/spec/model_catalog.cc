#include "spec/model_catalog.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/csv.h"
#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "spec/model_family.h"

namespace plait {
namespace {

// The catalogue is part of the program: what does not parse in it is a bug, found by its test.

// Cells of one model by the name of their column.
class Row {
 public:
  Row(const CsvTable& table, const CsvRow& row) : table_(table), row_(row) {}

  const std::string& text(const char* column) const {
    const int index = table_.column(column);
    CHECK_GE(index, 0);
    return row_.fields[static_cast<size_t>(index)];
  }
  int64_t number(const char* column) const {
    const std::string& cell = text(column);
    int64_t value = -1;
    const auto [stop, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    CHECK(error == std::errc() && stop == cell.data() + cell.size());
    return value;
  }
  bool flag(const char* column) const { return number(column) != 0; }
  // Where the cell is empty, `otherwise`.
  double real(const char* column, double otherwise) const {
    const std::string& cell = text(column);
    double value = otherwise;
    const auto [stop, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    CHECK(cell.empty() || (error == std::errc() && stop == cell.data() + cell.size()));
    return value;
  }

 private:
  const CsvTable& table_;
  const CsvRow& row_;
};

CsvTable read_catalog() {
  return parse_csv(std::string(model_catalog_text()), "catalog/models.csv");
}

ModelFamily family_of(const std::string& name) {
  for (const FamilyInfo& info : kFamilies) {
    if (name == info.model_type) {
      return info.family;
    }
  }
  CHECK(false);
  return ModelFamily::kCustom;
}

// "TYPE:FACTOR:ORIGINAL_POSITIONS".
void set_rope_scaling(const std::string& text, RopeConfig& rope) {
  if (text.empty()) {
    return;
  }
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  CHECK(second != std::string::npos);
  const std::string type = text.substr(0, first);
  CHECK(type == "llama3" || type == "yarn");
  rope.type = type == "llama3" ? RopeType::kLlama3 : RopeType::kYarn;
  rope.factor = std::stod(text.substr(first + 1, second - first - 1));
  rope.original_max_position_embeddings = std::stoll(text.substr(second + 1));
}

void set_constants(const Row& row, ModelConfig& config) {
  config.rope.theta = row.real("rope_theta", config.rope.theta);
  set_rope_scaling(row.text("rope_scaling"), config.rope);
  config.rms_norm_eps = row.real("norm_eps", config.rms_norm_eps);
  config.bos_token_id = static_cast<int64_t>(row.real("bos", -1));
  config.eos_token_id = static_cast<int64_t>(row.real("eos", -1));
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
  set_constants(row, config);
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

// Null if the catalogue has no such model.
const CsvRow* find_row(const CsvTable& table, const std::string& name) {
  const auto found = std::find_if(table.rows.begin(), table.rows.end(), [&](const CsvRow& row) {
    return bare(row.fields.front()) == bare(name);
  });
  return found == table.rows.end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const CsvRow& row : read_catalog().rows) {
    names.push_back(row.fields.front());
  }
  return names;
}

bool knows_constants(const std::string& name_or_path) {
  if (!name_or_path.empty() && path_exists(name_or_path)) {
    return true;
  }
  const CsvTable table = read_catalog();
  const CsvRow* row = find_row(table, name_or_path);
  return row != nullptr && !Row(table, *row).text("norm_eps").empty();
}

ModelConfig find_model(const std::string& name_or_path) {
  if (!name_or_path.empty() && path_exists(name_or_path)) {
    return load_model_config(name_or_path);
  }
  const CsvTable table = read_catalog();
  if (const CsvRow* row = find_row(table, name_or_path)) {
    return config_of(Row(table, *row));
  }
  std::vector<std::string> names;
  for (const std::string& name : model_names()) {
    names.push_back(bare(name));
  }
  const std::string nearest = nearest_name(bare(name_or_path), names);
  const CsvRow* suggested = find_row(table, nearest);
  throw_error(
      ErrorCode::kNotFound,
      "model '{}' is neither in the catalogue{} nor a file or directory with a config.json; "
      "known are {}",
      name_or_path.substr(0, 200),
      suggested != nullptr ? fmt::format(" (did you mean '{}'?)", suggested->fields.front()) : "",
      fmt::join(model_names(), ", "));
}

std::string model_title(const std::string& name_or_path) {
  const CsvTable table = read_catalog();
  const CsvRow* row = path_exists(name_or_path) ? nullptr : find_row(table, name_or_path);
  return row != nullptr ? row->fields.front() : name_or_path;
}

}  // namespace plait
