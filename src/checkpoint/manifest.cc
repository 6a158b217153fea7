#include "checkpoint/manifest.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "base/json_reader.h"

namespace plait {
namespace {

constexpr const char* kFormat = "plait-checkpoint";
constexpr int64_t kManifestVersion = 1;
constexpr std::string_view kChecksumKey = "\"manifest_crc32c\"";
// Far above any real size, and low enough that sums and products of two stay in range.
constexpr int64_t kDimMax = int64_t{1} << 31;

std::string hex(uint32_t crc) {
  return fmt::format("{:08x}", crc);
}

Json to_json(const FileRecord& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"crc32c", hex(file.crc32c)}};
}

Json to_json(const PieceRecord& piece) {
  const Shard& shard = piece.part.shard;
  Json crcs = Json::array();
  for (const uint32_t crc : piece.crc32c) {
    crcs.push_back(hex(crc));
  }
  return {{"name", piece.name},
          {"shard", {shard.row_begin, shard.rows, shard.col_begin, shard.cols}},
          {"range", {piece.part.begin, piece.part.end}},
          {"file", piece.file},
          {"crc32c", crcs}};
}

template <typename Record>
std::string lines(const std::vector<Record>& records) {
  std::string text = "[";
  const char* separator = "\n  ";
  for (const Record& record : records) {
    text += separator + dump_json(to_json(record));
    separator = ",\n  ";
  }
  return text + "\n ]";
}

uint32_t parse_crc(const JsonReader& reader, const Json& value) {
  uint32_t crc = 0;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    for (const char c : text) {
      const bool digit = c >= '0' && c <= '9';
      if (text.size() != 8 || !(digit || (c >= 'a' && c <= 'f'))) {
        reader.wrong_type("crc32c", value, "8 hexadecimal digits");
      }
      crc = crc << 4 | static_cast<uint32_t>(digit ? c - '0' : c - 'a' + 10);
    }
    if (!text.empty()) {
      return crc;
    }
  }
  reader.wrong_type("crc32c", value, "8 hexadecimal digits");
}

const Json& required(const JsonReader& reader, const char* key) {
  const Json* value = reader.find(key);
  if (value == nullptr) {
    reader.missing(key);
  }
  return *value;
}

// An array of `count` integers in [0, kDimMax * kDimMax).
std::vector<int64_t> integers(const JsonReader& reader, const char* key, size_t count) {
  const Json& value = required(reader, key);
  if (!value.is_array() || value.size() != count) {
    reader.wrong_type(key, value, "an array of integers");
  }
  std::vector<int64_t> numbers;
  for (const Json& element : value) {
    numbers.push_back(reader.to_integer(key, element));
    if (numbers.back() < 0) {
      reader.wrong_type(key, value, "an array of integers from 0");
    }
  }
  return numbers;
}

FileRecord parse_file(const Json& json, const std::string& origin) {
  const JsonReader reader(json, origin + ": files");
  FileRecord file;
  file.name = reader.required_text("name");
  if (file.name.empty() || file.name.front() == '.' ||
      file.name.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    reader.wrong_type("name", json["name"], "a plain file name");
  }
  file.bytes = reader.required_integer("bytes");
  file.crc32c = parse_crc(reader, required(reader, "crc32c"));
  return file;
}

PieceRecord parse_piece(const Json& json, const std::string& origin) {
  PieceRecord piece;
  piece.name = JsonReader(json, origin + ": pieces").required_text("name");
  const JsonReader reader(json, fmt::format("{}: piece of '{}'", origin, piece.name));
  const std::vector<int64_t> shard = integers(reader, "shard", 4);
  if (std::ranges::any_of(shard, [](int64_t value) { return value > kDimMax; })) {
    reader.wrong_type("shard", json["shard"], "smaller");
  }
  piece.part.shard = {shard[0], shard[1], shard[2], shard[3]};
  const std::vector<int64_t> range = integers(reader, "range", 2);
  piece.part.begin = range[0];
  piece.part.end = range[1];
  if (range[0] >= range[1] || range[1] > piece.part.shard.count()) {
    reader.wrong_type("range", json["range"], "[begin, end) inside the shard");
  }
  piece.file = reader.required_integer("file");
  const Json& crcs = required(reader, "crc32c");
  if (!crcs.is_array() || crcs.size() != piece.crc32c.size()) {
    reader.wrong_type("crc32c", crcs, "an array of three checksums");
  }
  for (size_t i = 0; i < piece.crc32c.size(); ++i) {
    piece.crc32c[i] = parse_crc(reader, crcs[i]);
  }
  return piece;
}

template <typename Record>
std::vector<Record> parse_records(const JsonReader& reader, const char* key,
                                  Record (*parse)(const Json&, const std::string&)) {
  const Json& array = required(reader, key);
  if (!array.is_array()) {
    reader.wrong_type(key, array, "an array");
  }
  std::vector<Record> records;
  for (const Json& element : array) {
    records.push_back(parse(element, reader.origin()));
  }
  return records;
}

void check_checksum(const std::string& text, const JsonReader& reader) {
  const size_t position = text.rfind(kChecksumKey);
  if (position == std::string::npos) {
    reader.missing("manifest_crc32c");
  }
  const std::string actual = hex(crc32c(std::as_bytes(std::span(text).subspan(0, position))));
  const std::string stored = reader.required_text("manifest_crc32c");
  if (stored != actual) {
    throw_error(ErrorCode::kCorruptData,
                "{}: bytes 0 to {} have the checksum {}, but {} is stored: the file was damaged or "
                "edited; use another checkpoint",
                reader.origin(), position, actual, stored);
  }
}

bool overlap(const Shard& a, const Shard& b) {
  return a.row_begin < b.row_begin + b.rows && b.row_begin < a.row_begin + a.rows &&
         a.col_begin < b.col_begin + b.cols && b.col_begin < a.col_begin + a.cols;
}

bool equal(const Shard& a, const Shard& b) {
  return a.row_begin == b.row_begin && a.rows == b.rows && a.col_begin == b.col_begin &&
         a.cols == b.cols;
}

bool overlap(const ShardPart& a, const ShardPart& b) {
  if (equal(a.shard, b.shard)) {
    return a.begin < b.end && b.begin < a.end;
  }
  return overlap(a.shard, b.shard);
}

// Requires: all pieces belong to `spec`.
void check_coverage(const ParamSpec& spec, const std::vector<const PieceRecord*>& pieces,
                    const std::string& origin) {
  const Shard logical{.row_begin = 0, .rows = spec.shape[0], .col_begin = 0, .cols = spec.cols()};
  int64_t count = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const ShardPart& part = pieces[i]->part;
    if (part.shard.col_begin + part.shard.cols > spec.cols()) {
      throw_error(ErrorCode::kCorruptData,
                  "{}: piece of '{}': columns up to {}, but the parameter has {}", origin,
                  spec.name, part.shard.col_begin + part.shard.cols, spec.cols());
    }
    for (size_t j = 0; j < i; ++j) {
      if (overlap(part, pieces[j]->part)) {
        throw_error(ErrorCode::kCorruptData, "{}: two pieces of '{}' overlap", origin, spec.name);
      }
    }
    count += count_overlap(part, logical);
  }
  if (count != spec.count()) {
    throw_error(ErrorCode::kCorruptData, "{}: the pieces of '{}' hold {} of its {} elements",
                origin, spec.name, count, spec.count());
  }
}

void check_pieces(const Manifest& manifest, const std::string& origin) {
  std::map<std::string, std::vector<const PieceRecord*>> by_name;
  for (const PieceRecord& piece : manifest.pieces) {
    if (piece.file < 0 || piece.file >= static_cast<int64_t>(manifest.files.size())) {
      throw_error(ErrorCode::kCorruptData, "{}: piece of '{}': file {}, but there are {}", origin,
                  piece.name, piece.file, manifest.files.size());
    }
    by_name[piece.name].push_back(&piece);
  }
  for (const ParamSpec& spec : make_parameter_table(manifest.model, {})) {
    check_coverage(spec, by_name[spec.name], origin);
    by_name.erase(spec.name);
  }
  if (!by_name.empty()) {
    throw_error(ErrorCode::kCorruptData, "{}: '{}' is no parameter of the model that is described",
                origin, by_name.begin()->first);
  }
}

uint64_t required_seed(const JsonReader& reader) {
  const Json& value = required(reader, "seed");
  if (!value.is_number_unsigned()) {
    reader.wrong_type("seed", value, "an integer from 0");
  }
  return value.get<uint64_t>();
}

// What the weights' shapes and meaning depend on.
std::vector<std::pair<const char*, std::string>> model_facts(const ModelConfig& model) {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  const RopeConfig& rope = model.rope;
  std::vector<std::pair<const char*, std::string>> facts = {
      {"model_type", family_name(model.family)},
      {"vocab_size", text(model.vocab_size)},
      {"hidden_size", text(model.hidden_size)},
      {"intermediate_size", text(model.ffn_hidden_size)},
      {"num_hidden_layers", text(model.num_layers)},
      {"num_attention_heads", text(model.num_heads)},
      {"num_key_value_heads", text(model.num_kv_heads)},
      {"head_dim", text(model.head_dim)},
      {"tie_word_embeddings", text(model.tie_word_embeddings)},
      {"attention_bias (q, k, v)", text(model.qkv_bias)},
      {"attention_bias (o)", text(model.o_bias)},
      {"mlp_bias", text(model.mlp_bias)},
      {"rms_norm_eps", text(model.rms_norm_eps)},
      {"rope_theta", text(rope.theta)},
      {"rope_type", rope.type == RopeType::kLlama3 ? "llama3" : "default"}};
  if (rope.type == RopeType::kLlama3) {
    facts.insert(facts.end(), {{"rope factor", text(rope.factor)},
                               {"rope low_freq_factor", text(rope.low_freq_factor)},
                               {"rope high_freq_factor", text(rope.high_freq_factor)},
                               {"rope original_max_position_embeddings",
                                text(rope.original_max_position_embeddings)}});
  }
  return facts;
}

}  // namespace

const char* state_name(StateKind kind) {
  switch (kind) {
    case StateKind::kParam:
      return "param";
    case StateKind::kExpAvg:
      return "exp_avg";
    case StateKind::kExpAvgSq:
      return "exp_avg_sq";
  }
  return "?";
}

std::string tensor_key(StateKind kind, const std::string& parameter) {
  return fmt::format("{}:{}", state_name(kind), parameter);
}

std::string manifest_text(const Manifest& manifest) {
  const CheckpointMeta& meta = manifest.meta;
  Json extra;
  try {
    extra = parse_json(meta.extra, "extra state of the checkpoint");
  } catch (const Error& error) {
    throw_error(ErrorCode::kInvalidArgument, "{}", error.message());
  }
  const std::string dtype = manifest.compute_dtype == "bf16" ? "bfloat16" : "float32";
  const Json head = {{"format", kFormat},
                     {"version", kManifestVersion},
                     {"step", meta.step},
                     {"tokens_seen", meta.tokens_seen},
                     {"seed", meta.seed},
                     {"world_size", manifest.world_size},
                     {"layout", manifest.layout},
                     {"compute_dtype", manifest.compute_dtype},
                     {"extra", extra},
                     {"model", to_hf_config(manifest.model, dtype)}};
  std::string text = dump_json(head, 1);
  text.resize(text.size() - 2);  // "\n}"
  text += ",\n \"files\": " + lines(manifest.files) + ",\n \"pieces\": " + lines(manifest.pieces) +
          ",\n ";
  const uint32_t crc = crc32c(std::as_bytes(std::span(text)));
  // No line end behind the brace: then every truncation breaks the syntax.
  return fmt::format("{}{}: \"{}\"\n}}", text, kChecksumKey, hex(crc));
}

Manifest parse_manifest(const std::string& text, const std::string& origin) {
  const Json json = parse_json(text, origin);
  const JsonReader reader(json, origin);
  const std::string format = reader.text("format").value_or("");
  if (format != kFormat) {
    throw_error(ErrorCode::kCorruptData,
                "{}: byte 0: this is no checkpoint manifest of plait (format is '{}', must be "
                "'{}')",
                origin, format, kFormat);
  }
  const int64_t version = reader.required_integer("version");
  if (version != kManifestVersion) {
    throw_error(version > kManifestVersion ? ErrorCode::kNotImplemented : ErrorCode::kCorruptData,
                "{}: version is {}, this build reads {}; use a newer plait", origin, version,
                kManifestVersion);
  }
  check_checksum(text, reader);
  Manifest manifest;
  manifest.meta.step = reader.required_integer("step");
  manifest.meta.tokens_seen = reader.required_integer("tokens_seen");
  manifest.meta.seed = required_seed(reader);
  manifest.meta.extra = dump_json(required(reader, "extra"));
  manifest.world_size = reader.required_integer("world_size");
  manifest.layout = reader.required_text("layout");
  manifest.compute_dtype = reader.required_text("compute_dtype");
  manifest.model = parse_model_config(required(reader, "model"), origin + ": model");
  check_trainable(manifest.model, origin + ": model");
  manifest.files = parse_records(reader, "files", parse_file);
  manifest.pieces = parse_records(reader, "pieces", parse_piece);
  check_pieces(manifest, origin);
  return manifest;
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / kManifestName).string();
  return parse_manifest(read_file(path), path);
}

std::string encode_records(const RankRecords& records) {
  return fmt::format("{{\"files\": {}, \"pieces\": {}}}", lines(records.files),
                     lines(records.pieces));
}

RankRecords decode_records(const std::string& text) {
  const Json json = parse_json(text, "records of a rank");
  const JsonReader reader(json, "records of a rank");
  return {parse_records(reader, "files", parse_file), parse_records(reader, "pieces", parse_piece)};
}

void check_same_model(const ModelConfig& saved, const ModelConfig& expected,
                      const std::string& origin) {
  const auto theirs = model_facts(saved);
  const auto ours = model_facts(expected);
  for (size_t i = 0; i < std::min(theirs.size(), ours.size()); ++i) {
    if (theirs[i] != ours[i]) {
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: {} is {} in the checkpoint, but {} in this run; use the model config of the "
                  "checkpoint or start a new run in another folder",
                  origin, theirs[i].first, theirs[i].second, ours[i].second);
    }
  }
}

}  // namespace plait
