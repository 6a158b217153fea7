// Values to and from text and JSON.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "base/json_full.h"
#include "text/jinja/value.h"
#include "text/unicode.h"

namespace plait::jinja {
namespace {

std::string quoted(const std::string& text) {
  const bool double_quotes =
      text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    if (c.value == '\\' || c.value == static_cast<uint32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c.value);
    } else if (c.value == '\n' || c.value == '\r' || c.value == '\t') {
      out += c.value == '\n' ? "\\n" : c.value == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c.value)) {
      out += text.substr(i, c.size);
    } else {
      out += c.value < 0x100     ? fmt::format("\\x{:02x}", c.value)
             : c.value < 0x10000 ? fmt::format("\\u{:04x}", c.value)
                                 : fmt::format("\\U{:08x}", c.value);
    }
    i += c.size;
  }
  return out + quote;
}

void append(MarkedText& out, std::string text) {
  out.append(MarkedText(std::move(text)));
}

// Python's repr().
MarkedText repr(const Value& value) {
  if (const MarkedText* text = value.as_text()) {
    return MarkedText(quoted(text->bytes()), text->any_user());
  }
  MarkedText out;
  if (const List* list = value.as_list()) {
    append(out, list->is_tuple ? "(" : "[");
    for (size_t i = 0; i < list->items.size(); ++i) {
      append(out, i > 0 ? ", " : "");
      out.append(repr(list->items[i]));
    }
    append(out, list->is_tuple ? (list->items.size() == 1 ? ",)" : ")") : "]");
    return out;
  }
  if (const Dict* dict = value.as_dict(); dict != nullptr && !dict->is_namespace) {
    append(out, "{");
    for (size_t i = 0; i < dict->entries().size(); ++i) {
      append(out, i > 0 ? ", " : "");
      out.append(repr(dict->entries()[i].first));
      append(out, ": ");
      out.append(repr(dict->entries()[i].second));
    }
    append(out, "}");
    return out;
  }
  return value.is_undefined() ? MarkedText("Undefined") : to_text(value);
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const Value& value, int64_t level) {
    if (const MarkedText* text = value.as_text()) {
      write_text(*text);
    } else if (const List* list = value.as_list()) {
      out_ += '[';
      bool first = true;
      for (const Value& item : list->items) {
        separate(first, level + 1);
        write(item, level + 1);
      }
      close(']', first, level);
    } else if (const Dict* dict = value.as_dict(); dict != nullptr && !dict->is_namespace) {
      write_dict(*dict, level);
    } else if (value.is_none()) {
      out_ += "null";
    } else if (const bool* boolean = value.get<bool>()) {
      out_ += *boolean ? "true" : "false";
    } else if (const double* number = value.get<double>()) {
      out_ += std::isnan(*number)   ? "NaN"
              : std::isinf(*number) ? (*number < 0 ? "-Infinity" : "Infinity")
                                    : float_text(*number);
    } else if (value.as_integer()) {
      out_ += fmt::format("{}", *value.as_integer());
    } else {
      throw std::invalid_argument(
          fmt::format("Object of type {} is not JSON serializable", value.type_name()));
    }
  }

  MarkedText take() { return MarkedText(std::move(out_), user_); }

 private:
  void separate(bool& first, int64_t level) {
    if (!first) {
      out_ += style_.indent < 0 ? ", " : ",";
    }
    first = false;
    new_line(level);
  }
  void new_line(int64_t level) {
    if (style_.indent >= 0) {
      out_ += '\n';
      out_.append(static_cast<size_t>(level * style_.indent), ' ');
    }
  }
  void close(char bracket, bool empty, int64_t level) {
    if (!empty) {
      new_line(level);
    }
    out_ += bracket;
  }
  void write_text(const MarkedText& text) {
    user_ = user_ || text.any_user();
    out_ += '"';
    for (const char c : text.bytes()) {
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\b':
          out_ += "\\b";
          break;
        case '\f':
          out_ += "\\f";
          break;
        default:
          out_ += static_cast<uint8_t>(c) < 0x20 ? fmt::format("\\u{:04x}", static_cast<uint8_t>(c))
                                                 : std::string(1, c);
      }
    }
    out_ += '"';
  }
  void write_dict(const Dict& dict, int64_t level) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) {
      entries.push_back(&entry);
    }
    if (style_.sort_keys) {
      std::ranges::stable_sort(
          entries, {}, [](const Dict::Entry* entry) { return to_text(entry->first).bytes(); });
    }
    out_ += '{';
    bool first = true;
    for (const Dict::Entry* entry : entries) {
      separate(first, level + 1);
      if (const MarkedText* key = entry->first.as_text()) {
        write_text(*key);
      } else {  // numbers, True and None become text
        out_ += '"';
        write(entry->first, level + 1);
        out_ += '"';
      }
      out_ += ": ";
      write(entry->second, level + 1);
    }
    close('}', first, level);
  }

  JsonStyle style_;
  std::string out_;
  bool user_ = false;
};

}  // namespace

MarkedText to_text(const Value& value) {
  if (const MarkedText* text = value.as_text()) {
    return *text;
  }
  if (value.is_undefined()) {
    return {};
  }
  if (value.is_none()) {
    return MarkedText("None");
  }
  if (const bool* boolean = value.get<bool>()) {
    return MarkedText(*boolean ? "True" : "False");
  }
  if (const double* number = value.get<double>()) {
    return MarkedText(float_text(*number));
  }
  if (value.as_integer()) {
    return MarkedText(fmt::format("{}", *value.as_integer()));
  }
  const bool container =
      value.as_list() != nullptr || (value.as_dict() != nullptr && !value.as_dict()->is_namespace);
  return container ? repr(value) : MarkedText(fmt::format("<{}>", value.type_name()));
}

Value from_json(const Json& json, bool from_user) {
  switch (json.type()) {
    case Json::value_t::null:
      return Value::none();
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return json.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                 ? Value::integer(json.get<int64_t>())
                 : Value::number(json.get<double>());
    case Json::value_t::number_float:
      return Value::number(json.get<double>());
    case Json::value_t::string:
      return Value::text(MarkedText(json.get<std::string>(), from_user));
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) {
        items.push_back(from_json(item, from_user));
      }
      return Value::list(std::move(items));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        dict.set(Value::text(MarkedText(key, from_user)), from_json(item, from_user));
      }
      return Value::dict(std::move(dict));
    }
    default:
      return Value::none();
  }
}

MarkedText to_json_text(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace plait::jinja
