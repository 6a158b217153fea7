#include "base/json.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"

namespace plait {

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
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw_error(ErrorCode::kCorruptData, "{}: byte {}: not valid JSON ({})", origin, error.byte,
                error.what());
  } catch (const Json::exception& error) {
    throw_error(ErrorCode::kCorruptData, "{}: not valid JSON ({})", origin, error.what());
  }
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json read_json(const std::string& path) {
  return parse_json(read_file(path), path);
}

}  // namespace plait
