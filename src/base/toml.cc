#include <algorithm>

#include "base/toml_full.h"

namespace plait {
namespace {

// The parser builds one table per dot of a key and frees them by recursion: no more dots than the
// stack can hold.
constexpr std::ptrdiff_t kDotsMax = 4096;

}  // namespace

toml::table parse_toml(const std::string& text, const std::string& origin, ErrorCode code) {
  const std::ptrdiff_t dots = std::count(text.begin(), text.end(), '.');
  if (dots > kDotsMax) {
    throw_error(code, "{}: {} dots are more than a TOML file may have ({})", origin, dots,
                kDotsMax);
  }
  try {
    return toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    throw_error(code, "{}: line {}, column {}: not valid TOML: {}", origin,
                error.source().begin.line, error.source().begin.column, error.description());
  } catch (const TomlFault&) {
    throw_error(code,
                "{}: not valid TOML, in a way that the parser cannot place; look for a table "
                "header or key that starts with an odd character",
                origin);
  }
}

const char* toml_type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::none:
      return "nothing";
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "a flag";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date or time";
  }
  return "?";
}

}  // namespace plait
