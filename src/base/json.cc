#include "base/json.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"

namespace plait {
namespace {

// Builds the tree itself: the library's parser compares each key of an object with all before it,
// and a request may have a hundred thousand.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit TreeBuilder(const std::string& origin) : origin_(&origin) {}
  Json take() { return std::move(root_); }

  bool null() override { return add(Json(nullptr)); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(Json(value)); }
  bool string(string_t& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t& value) override { return add(Json(std::move(value))); }
  bool start_object(size_t) override { return open(Json(Json::value_t::object)); }
  bool start_array(size_t) override { return open(Json(Json::value_t::array)); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override;
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    static constexpr int kParseErrors = 1;  // hundreds of the library's error numbers
    if (error.id / 100 == kParseErrors) {
      throw_error(ErrorCode::kCorruptData, "{}: byte {}: not valid JSON ({})", *origin_, position,
                  error.what());
    }
    throw_error(ErrorCode::kCorruptData, "{}: not valid JSON ({})", *origin_, error.what());
  }

 private:
  struct Level {
    Json* node = nullptr;                           // does not move while it is open
    size_t slot = 0;                                // of the last key
    std::unordered_map<std::string, size_t> slots;  // of all keys, once there are many
  };
  static constexpr size_t kFewKeys = 16;

  Json* place(Json value) {
    Json* target = &root_;
    if (!levels_.empty()) {
      Level& level = levels_.back();
      if (level.node->is_array()) {
        level.node->push_back(nullptr);
        target = &level.node->back();
      } else {
        auto& object = level.node->get_ref<Json::object_t&>();
        target = &(object.begin() + static_cast<std::ptrdiff_t>(level.slot))->second;
      }
    }
    *target = std::move(value);
    return target;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    Json* node = place(std::move(value));
    levels_.push_back({node, 0, {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  const std::string* origin_;
  Json root_;
  std::vector<Level> levels_;
};

bool TreeBuilder::key(string_t& name) {
  Level& level = levels_.back();
  auto& object = level.node->get_ref<Json::object_t&>();
  if (object.size() < kFewKeys) {
    const auto same = [&](const auto& entry) { return entry.first == name; };
    level.slot =
        static_cast<size_t>(std::find_if(object.begin(), object.end(), same) - object.begin());
  } else {
    for (size_t i = level.slots.size(); i < object.size(); ++i) {
      level.slots.emplace((object.begin() + static_cast<std::ptrdiff_t>(i))->first, i);
    }
    const auto known = level.slots.find(name);
    level.slot = known == level.slots.end() ? object.size() : known->second;
  }
  if (level.slot == object.size()) {
    object.emplace_back(name, nullptr);
  }
  return true;
}

}  // namespace

Json parse_json(const std::string& text, const std::string& origin) {
  static constexpr int kDepthMax = 128;
  // Depth is measured before parsing: the library's destructor and parser both recurse.
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDepthMax) {
        throw_error(ErrorCode::kCorruptData, "{}: byte {}: nested deeper than {} levels", origin, i,
                    kDepthMax);
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  TreeBuilder builder(origin);
  Json::sax_parse(text, &builder);
  return builder.take();
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json read_json(const std::string& path) {
  return parse_json(read_file(path), path);
}

}  // namespace plait
