#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "base/json_full.h"
#include "base/printable.h"
#include "base/text.h"
#include "doctor/diagnosis.h"
#include "doctor/env_checks.h"

namespace plait {

const char* check_state_name(CheckState state) {
  static constexpr const char* kNames[] = {"ok", "warning", "bad", "unknown"};
  return kNames[static_cast<size_t>(state)];
}

std::vector<EnvCheck> check_env(const EnvFacts& facts) {
  std::vector<EnvCheck> checks;
  check_versions(facts, checks);
  check_devices(facts, checks);
  check_network(facts, checks);
  check_host(facts, checks);
  check_variables(facts, checks);
  for (EnvCheck& check : checks) {
    check.evidence = printable(check.evidence);
    check.fix = printable(check.fix);
  }
  return checks;
}

std::string variable(const EnvFacts& facts, const std::string& name) {
  std::istringstream lines(fact(facts, "environment"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + "=")) {
      return line.substr(name.size() + 1);
    }
  }
  return "";
}

std::string value_of(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string rest = trimmed(line, " \t\r");
    if (!rest.starts_with(key)) {
      continue;
    }
    rest = trimmed(rest.substr(key.size()), " \t");
    if (!rest.empty() && (rest[0] == ':' || rest[0] == '=')) {
      return trimmed(rest.substr(1), " \t[]");
    }
  }
  return "";
}

std::string env_text(const std::vector<EnvCheck>& checks) {
  std::string text;
  std::vector<int> count(4, 0);
  for (const EnvCheck& check : checks) {
    ++count[static_cast<size_t>(check.state)];
    text +=
        fmt::format("{:<8} {:<22} {}\n", check_state_name(check.state), check.name, check.evidence);
    if (!check.fix.empty() && check.state != CheckState::kOk) {
      text += fmt::format("{:<31} -> {}\n", "", check.fix);
    }
  }
  text += fmt::format("{} ok, {} warnings, {} bad, {} unknown\n", count[0], count[1], count[2],
                      count[3]);
  return text;
}

std::string env_json(const std::vector<EnvCheck>& checks) {
  Json json;
  json["checks"] = Json::array();
  for (const EnvCheck& check : checks) {
    json["checks"].push_back({{"name", check.name},
                              {"state", check_state_name(check.state)},
                              {"evidence", check.evidence},
                              {"fix", check.fix.empty() ? Json(nullptr) : Json(check.fix)}});
  }
  return dump_json(json, 2) + "\n";
}

}  // namespace plait
