#include "spec/run_file.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "base/toml_full.h"

namespace plait {
namespace {

struct Context {
  const std::string& origin;
  std::span<const RunKey> keys;
  RunValues& values;
};

int line_of(const toml::node& node) {
  return static_cast<int>(node.source().begin.line);
}

[[noreturn]] void fail(const Context& context, const toml::node& node, const std::string& what) {
  throw_error(ErrorCode::kInvalidArgument, "{}: line {}: {}", context.origin, line_of(node), what);
}

std::string section_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return std::string(dot == std::string_view::npos ? "" : name.substr(0, dot + 1));
}

// Shortened: a hostile name may be long.
std::string shown_name(const std::string& name) {
  static constexpr size_t kShownMax = 100;
  return name.size() <= kShownMax ? name : name.substr(0, kShownMax) + "...";
}

// Keys of the same section, or all if the section is unknown.
std::vector<std::string> allowed_names(const Context& context, const std::string& name) {
  std::vector<std::string> same;
  std::vector<std::string> all;
  for (const RunKey& key : context.keys) {
    all.emplace_back(key.name);
    if (section_of(key.name) == section_of(name)) {
      same.emplace_back(key.name);
    }
  }
  std::vector<std::string>& chosen = same.empty() ? all : same;
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

[[noreturn]] void unknown_key(const Context& context, const toml::node& node,
                              const std::string& name) {
  std::vector<std::string> all;
  for (const RunKey& key : context.keys) {
    all.emplace_back(key.name);
  }
  const std::string nearest = nearest_name(name, all);
  fail(context, node,
       fmt::format("unknown key '{}'{}; allowed are {}", shown_name(name),
                   nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest),
                   fmt::join(allowed_names(context, name), ", ")));
}

[[noreturn]] void unknown_section(const Context& context, const toml::node& node,
                                  const std::string& name) {
  std::vector<std::string> sections;
  for (const RunKey& key : context.keys) {
    const std::string section = section_of(key.name);
    const std::string shown = section.substr(0, section.size() - (section.empty() ? 0 : 1));
    if (!shown.empty() && std::find(sections.begin(), sections.end(), shown) == sections.end()) {
      sections.push_back(shown);
    }
  }
  const std::string nearest = nearest_name(name, sections);
  fail(context, node,
       fmt::format("unknown section '{}'{}; allowed are {}", shown_name(name),
                   nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest),
                   fmt::join(sections, ", ")));
}

std::optional<int64_t> as_integer(const toml::node& node) {
  const auto* integer = node.as_integer();
  return integer == nullptr ? std::nullopt : std::optional<int64_t>(integer->get());
}

// TOML has inf and nan; no option takes them.
std::optional<double> as_number(const toml::node& node) {
  if (const auto* number = node.as_floating_point()) {
    return std::isfinite(number->get()) ? std::optional<double>(number->get()) : std::nullopt;
  }
  const std::optional<int64_t> integer = as_integer(node);
  return integer ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
}

std::optional<std::string> as_text(const toml::node& node) {
  const auto* text = node.as_string();
  return text == nullptr ? std::nullopt : std::optional<std::string>(text->get());
}

template <typename T>
std::optional<RunVariant> wrap(std::optional<T> value) {
  return value ? std::optional<RunVariant>(*std::move(value)) : std::nullopt;
}

template <typename T>
std::optional<RunVariant> as_list(const toml::node& node,
                                  std::optional<T> (*convert)(const toml::node&)) {
  const toml::array* array = node.as_array();
  if (array == nullptr) {
    return std::nullopt;
  }
  std::vector<T> list;
  for (const toml::node& entry : *array) {
    std::optional<T> value = convert(entry);
    if (!value) {
      return std::nullopt;
    }
    list.push_back(*std::move(value));
  }
  return RunVariant(std::move(list));
}

// Nothing if the node is of another type.
std::optional<RunVariant> convert(const toml::node& node, RunType type) {
  switch (type) {
    case RunType::kInteger:
      return wrap(as_integer(node));
    case RunType::kNumber:
      return wrap(as_number(node));
    case RunType::kFlag:
      return node.is_boolean() ? std::optional<RunVariant>(node.as_boolean()->get()) : std::nullopt;
    case RunType::kText:
      return wrap(as_text(node));
    case RunType::kIntegerList:
      return as_list<int64_t>(node, as_integer);
    case RunType::kNumberList:
      return as_list<double>(node, as_number);
    case RunType::kTextList:
      return as_list<std::string>(node, as_text);
  }
  return std::nullopt;
}

void add_value(const Context& context, const toml::node& node, const std::string& name) {
  const auto key = std::find_if(context.keys.begin(), context.keys.end(),
                                [&](const RunKey& known) { return known.name == name; });
  if (key == context.keys.end()) {
    unknown_key(context, node, name);
  }
  std::optional<RunVariant> value = convert(node, key->type);
  if (!value) {
    fail(context, node,
         fmt::format("{} must be {}, but is {}", name, run_type_name(key->type),
                     node.is_array() ? "a list with something else in it" : toml_type_name(node)));
  }
  // "a.b" in quotes is a key of its own to TOML, but the same name here.
  if (!context.values.emplace(name, RunValue{*std::move(value), line_of(node)}).second) {
    fail(context, node, fmt::format("{} is set twice", name));
  }
}

void add_table(const Context& context, const toml::table& table, const std::string& prefix) {
  for (auto entry = table.begin(); entry != table.end(); ++entry) {
    const std::string name = prefix + std::string(entry->first.str());
    const toml::node& node = entry->second;
    if (!node.is_table()) {
      add_value(context, node, name);
      continue;
    }
    const std::string section = name + ".";
    const bool known =
        std::any_of(context.keys.begin(), context.keys.end(),
                    [&](const RunKey& key) { return key.name.starts_with(section); });
    const bool is_key = std::any_of(context.keys.begin(), context.keys.end(),
                                    [&](const RunKey& key) { return key.name == name; });
    if (is_key) {
      add_value(context, node, name);  // fails: a table is no value
    } else if (known) {
      add_table(context, *node.as_table(), section);
    } else {
      unknown_section(context, node, name);
    }
  }
}

}  // namespace

const char* run_type_name(RunType type) {
  static constexpr const char* kNames[] = {
      "an integer",         "a finite number",   "true or false",    "a string",
      "a list of integers", "a list of numbers", "a list of strings"};
  return kNames[static_cast<size_t>(type)];
}

RunValues parse_run_file(const std::string& text, const std::string& origin,
                         std::span<const RunKey> keys) {
  RunValues values;
  const toml::table table = parse_toml(text, origin, ErrorCode::kInvalidArgument);
  add_table({origin, keys, values}, table, "");
  return values;
}

RunValues load_run_file(const std::string& path, std::span<const RunKey> keys) {
  return parse_run_file(read_file(path), path, keys);
}

}  // namespace plait
