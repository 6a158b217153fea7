#include "plan/export/script.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

namespace plait {
namespace {

bool is_plain(char c) {
  constexpr const char* kPlain = "_./:,+-=@%";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view(kPlain).find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_quoted(const std::string& text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) {
    return text;
  }
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

std::string script_variables(const std::vector<ScriptVariable>& variables) {
  size_t width = 0;
  for (const ScriptVariable& variable : variables) {
    width = std::max(width, variable.name.size());
  }
  std::string needed, optional, lines;
  for (const ScriptVariable& v : variables) {
    if (v.otherwise.empty()) {
      needed += fmt::format("#   {:<{}}  {}\n", v.name, width, v.help);
      lines += fmt::format(": \"${{{}:?set it to: {}}}\"\n", v.name, v.help);
    } else {
      optional += fmt::format("#   {:<{}}  {} ({})\n", v.name, width, v.help, v.otherwise);
      lines += fmt::format("{}=${{{}:-{}}}\n", v.name, v.name, v.otherwise);
    }
  }
  std::string text;
  if (!needed.empty()) {
    text += "# What the plan does not know must be in the environment:\n" + needed;
  }
  if (!optional.empty()) {
    text += "# What it does not decide may be (default):\n" + optional;
  }
  return text + lines;
}

std::string script_head(const ScriptHead& head) {
  std::string text = "#!/usr/bin/env bash\n" + head.directives;
  text +=
      fmt::format("# {}\n# Written by `plait plan export --to {}`.\n", head.headline, head.kind);
  std::istringstream usage(head.usage);
  for (std::string line; std::getline(usage, line);) {
    text += line.empty() ? "#\n" : "# " + line + "\n";
  }
  return text + "set -euo pipefail\n\n";
}

std::string script_array(const std::string& name, const std::vector<ScriptFlag>& flags) {
  std::string text = name + "=(\n";
  for (const ScriptFlag& flag : flags) {
    text += "  " + flag.name + (flag.value.empty() ? "" : " " + flag.value) + "\n";
  }
  return text + ")\n";
}

}  // namespace plait
