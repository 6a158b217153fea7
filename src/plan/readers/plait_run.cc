#include "plan/readers/plait_run.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/suggest.h"
#include "base/toml_full.h"
#include "spec/model_catalog.h"

namespace plait {
namespace {

struct KnownKey {
  const char* section;
  const char* key;
  const char* setting;  // key of Problem; empty: of no account for a layout
};

constexpr std::array<KnownKey, 27> kKeys = {{
    {"model", "model", "model"},
    {"model", "precision", "dtype"},
    {"model", "vocab_multiple", "vocab_multiple"},
    {"model", "finetune", ""},
    {"layout", "layout", "layout"},
    {"layout", "dp", "dp"},
    {"layout", "tp", "tp"},
    {"layout", "pp", "pp"},
    {"layout", "vpp", "vpp"},
    {"layout", "cp", "cp"},
    {"layout", "ep", "ep"},
    {"layout", "zero", "zero"},
    {"layout", "sp", "sp"},
    {"layout", "schedule", "schedule"},
    {"layout", "recompute", "recompute"},
    {"layout", "stage_layers", "stage_layers"},
    {"machine", "ranks", "world_size"},
    {"machine", "overlap_grad_reduce", "overlap_grad_reduce"},
    {"machine", "threads", ""},
    {"machine", "device", ""},
    {"machine", "deadline", ""},
    {"machine", "bucket_mib", ""},
    {"batch", "global_batch_size", "global_batch_size"},
    {"batch", "micro_batch_size", "micro_batch_size"},
    {"batch", "seq_len", "seq_len"},
    {"batch", "steps", ""},
    {"batch", "seed", ""},
}};

class PlaitRunReader {
 public:
  PlaitRunReader(std::string origin, const ReadOptions& options) : options_(options) {
    out_.origin = std::move(origin);
    out_.kind = "plait run file";
    out_.job.stack = Stack::kPlait;
    out_.job.dtype = DType::kF32;
  }

  ReadJob read(const toml::table& root);

 private:
  [[noreturn]] void fail(const toml::node& node, const std::string& what) const {
    throw_error(ErrorCode::kInvalidArgument, "{}:{}: {}", out_.origin, node.source().begin.line,
                what);
  }
  SourceLine where(const toml::node& node) const {
    return {out_.origin, static_cast<int>(node.source().begin.line)};
  }
  void look_at_keys(const toml::table& root);
  const toml::node* find(const char* section, const char* key) const;
  std::optional<int64_t> integer(const char* section, const char* key) const;
  std::optional<std::string> text(const char* section, const char* key) const;
  std::optional<bool> flag(const char* section, const char* key) const;
  void read_layout();
  void read_model();

  const ReadOptions& options_;
  const toml::table* root_ = nullptr;
  ReadJob out_;
};

void PlaitRunReader::look_at_keys(const toml::table& root) {
  static constexpr std::string_view kOther[] = {"data", "optimizer", "output"};
  for (auto part = root.begin(); part != root.end(); ++part) {
    const std::string section(part->first.str());
    const toml::table* table = part->second.as_table();
    if (std::find(std::begin(kOther), std::end(kOther), section) != std::end(kOther)) {
      continue;
    }
    std::vector<std::string> allowed;
    for (const KnownKey& known : kKeys) {
      if (section == known.section) {
        allowed.emplace_back(known.key);
      }
    }
    if (table == nullptr || allowed.empty()) {
      out_.unknown_flags.push_back({section, "", where(part->second)});
      continue;
    }
    for (auto entry = table->begin(); entry != table->end(); ++entry) {
      const std::string key(entry->first.str());
      const auto known = std::find_if(kKeys.begin(), kKeys.end(), [&](const KnownKey& one) {
        return section == one.section && key == one.key;
      });
      if (known == kKeys.end()) {
        out_.unknown_flags.push_back(
            {section + "." + key, nearest_name(key, allowed), where(entry->second)});
      } else if (known->setting[0] != '\0') {
        out_.settings[known->setting] = {section + "." + key, "", where(entry->second)};
      }
    }
  }
}

const toml::node* PlaitRunReader::find(const char* section, const char* key) const {
  const toml::node* part = root_->get(section);
  const toml::table* table = part == nullptr ? nullptr : part->as_table();
  return table == nullptr ? nullptr : table->get(key);
}

std::optional<int64_t> PlaitRunReader::integer(const char* section, const char* key) const {
  const toml::node* node = find(section, key);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (!node->is_integer()) {
    fail(*node, fmt::format("{}.{} must be a whole number", section, key));
  }
  return node->as_integer()->get();
}

std::optional<std::string> PlaitRunReader::text(const char* section, const char* key) const {
  const toml::node* node = find(section, key);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (!node->is_string()) {
    fail(*node, fmt::format("{}.{} must be text", section, key));
  }
  return node->as_string()->get();
}

std::optional<bool> PlaitRunReader::flag(const char* section, const char* key) const {
  const toml::node* node = find(section, key);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (!node->is_boolean()) {
    fail(*node, fmt::format("{}.{} must be true or false", section, key));
  }
  return node->as_boolean()->get();
}

void PlaitRunReader::read_layout() {
  Layout base;
  if (const auto recompute = text("layout", "recompute")) {
    base.recompute = parse_recompute(*recompute);
  }
  if (const toml::node* split = find("layout", "stage_layers")) {
    const toml::array* list = split->as_array();
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      if (!list->get(i)->is_integer()) {
        fail(*split, "layout.stage_layers must be a list of whole numbers");
      }
      base.stage_layers.push_back(list->get(i)->as_integer()->get());
    }
  }
  Layout& layout = out_.job.layout;
  layout = parse_layout(text("layout", "layout").value_or("dp1"), base);
  const std::pair<const char*, int*> degrees[] = {
      {"dp", &layout.dp}, {"tp", &layout.tp}, {"pp", &layout.pp},    {"vpp", &layout.vpp},
      {"cp", &layout.cp}, {"ep", &layout.ep}, {"zero", &layout.zero}};
  for (const auto& [key, field] : degrees) {
    if (const auto value = integer("layout", key)) {
      if (*value < 0 || *value > kMaxRanks) {
        fail(*find("layout", key), fmt::format("layout.{} must be at most {}", key, kMaxRanks));
      }
      *field = static_cast<int>(*value);
    }
  }
  layout.sp = flag("layout", "sp").value_or(layout.sp);
  if (const auto schedule = text("layout", "schedule")) {
    layout.schedule = parse_schedule(*schedule);
  }
}

void PlaitRunReader::read_model() {
  std::string name = options_.model;
  if (name.empty()) {
    name = text("model", "model").value_or("");
  }
  const std::filesystem::path folder = std::filesystem::path(out_.origin).parent_path();
  if (name.empty() && path_exists(folder / "config.json")) {
    name = (folder / "config.json").string();
  }
  out_.has_model = !name.empty();
  if (out_.has_model) {
    const bool beside = !path_exists(name) && path_exists(folder / name);
    out_.job.model = find_model(beside ? (folder / name).string() : name);
    out_.job.model_name = model_title(name);
    return;
  }
  out_.assumptions.push_back(
      {"the model is not in the file: rules that need its shape are not checked; give it with "
       "--model",
       {out_.origin, 0}});
  ModelConfig& model = out_.job.model;
  const Layout& layout = out_.job.layout;
  model.num_layers = std::max<int64_t>(layout.pp, 1) * std::max(layout.vpp, 1);
  model.num_heads = model.num_kv_heads = model.ffn_hidden_size = std::max(layout.tp, 1);
  model.head_dim = 2;
  model.hidden_size = 2 * model.num_heads;
  model.vocab_size = 32000;
}

ReadJob PlaitRunReader::read(const toml::table& root) {
  root_ = &root;
  look_at_keys(root);
  const std::string precision = text("model", "precision").value_or("f32");
  if (precision != "f32" && precision != "bf16" && precision != "fp16") {
    fail(*find("model", "precision"),
         fmt::format("model.precision is {}; allowed are f32, bf16 and fp16",
                     precision.substr(0, 40)));
  }
  TrainJob& job = out_.job;
  job.dtype = precision == "bf16" ? DType::kBF16 : precision == "fp16" ? DType::kF16 : DType::kF32;
  job.vocab_multiple = integer("model", "vocab_multiple").value_or(1);
  read_layout();
  read_model();
  job.overlap_grad_reduce = flag("machine", "overlap_grad_reduce").value_or(true);
  job.batch.micro_batch_size = integer("batch", "micro_batch_size").value_or(1);
  job.batch.global_batch_size =
      integer("batch", "global_batch_size")
          .value_or(std::max<int64_t>(job.batch.micro_batch_size, 1) * job.layout.dp);
  job.batch.seq_len =
      integer("batch", "seq_len").value_or(options_.seq_len > 0 ? options_.seq_len : 128);
  const int64_t ranks = integer("machine", "ranks").value_or(0);
  if (ranks < 0 || ranks > kMaxRanks) {
    fail(*find("machine", "ranks"), fmt::format("machine.ranks must be 0 to {}", kMaxRanks));
  }
  out_.world_size = options_.devices > 0 ? options_.devices
                    : ranks > 0          ? static_cast<int>(ranks)
                                         : job.layout.world_size();
  return std::move(out_);
}

// "--global-batch-size 8" as batch.global_batch_size = 8. Flags win over the file.
void add_flag(toml::table& root, const std::string& name, const ShellWord* value) {
  std::string key = name;
  std::replace(key.begin(), key.end(), '-', '_');
  const auto known =
      std::find_if(kKeys.begin(), kKeys.end(), [&](const KnownKey& one) { return key == one.key; });
  if (known == kKeys.end() || (value != nullptr && !value->known())) {
    return;
  }
  if (!root.contains(known->section)) {
    root.insert(known->section, toml::table{});
  }
  toml::table& section = *root[known->section].as_table();
  if (value == nullptr) {
    section.insert_or_assign(key, true);
  } else if (const auto number = parse_integer(value->text)) {
    section.insert_or_assign(key, *number);
  } else {
    section.insert_or_assign(key, value->text);
  }
}

}  // namespace

ReadJob read_plait_train(const Launch& launch, const std::string& origin,
                         const ReadOptions& options) {
  std::string file;
  for (size_t i = 0; i + 1 < launch.arguments.size(); ++i) {
    if (launch.arguments[i].text == "--run") {
      const std::string& written = launch.arguments[i + 1].text;
      const std::filesystem::path beside =
          std::filesystem::path(origin).parent_path() / std::filesystem::path(written).filename();
      file = path_exists(written) ? written : beside.string();
    }
  }
  toml::table root;
  if (!file.empty()) {
    root = parse_toml(read_file(file), file, ErrorCode::kInvalidArgument);
  }
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    const std::string& word = launch.arguments[i].text;
    if (word.starts_with("--")) {
      const bool bare =
          i + 1 == launch.arguments.size() || launch.arguments[i + 1].text.starts_with("--");
      add_flag(root, word.substr(2), bare ? nullptr : &launch.arguments[i + 1]);
    }
  }
  ReadJob job = PlaitRunReader(file.empty() ? origin : file, options).read(root);
  job.kind = "plait train command";
  job.environment = launch.environment;
  return job;
}

ReadJob read_plait_run(const std::string& text, const std::string& origin,
                       const ReadOptions& options) {
  const toml::table root = parse_toml(text, origin, ErrorCode::kInvalidArgument);
  return PlaitRunReader(origin, options).read(root);
}

}  // namespace plait
