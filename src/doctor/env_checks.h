// Pre-flight checks of a host, as pure functions of its facts.
#pragma once

#include <string>
#include <vector>

#include "doctor/env_facts.h"

namespace plait {

enum class CheckState { kOk, kWarning, kBad, kUnknown };

const char* check_state_name(CheckState state);

struct EnvCheck {
  std::string name;
  CheckState state = CheckState::kUnknown;
  std::string evidence;
  std::string fix;  // "" where nothing is to be done
};

// Always all of them, in a fixed order; what cannot be told is kUnknown with the reason. Sources of
// ranges: HCCL's documentation of its variables; of versions: catalog/ascend_versions.csv.
std::vector<EnvCheck> check_env(const EnvFacts& facts);

// Groups of checks, each appending to `checks`.
void check_versions(const EnvFacts& facts, std::vector<EnvCheck>& checks);
void check_devices(const EnvFacts& facts, std::vector<EnvCheck>& checks);
void check_network(const EnvFacts& facts, std::vector<EnvCheck>& checks);
void check_host(const EnvFacts& facts, std::vector<EnvCheck>& checks);
void check_variables(const EnvFacts& facts, std::vector<EnvCheck>& checks);

std::string env_text(const std::vector<EnvCheck>& checks);
std::string env_json(const std::vector<EnvCheck>& checks);

// catalog/ascend_versions.csv.
std::string_view ascend_versions_text();

// "NAME" of the recorded environment; "" if it is not set.
std::string variable(const EnvFacts& facts, const std::string& name);

// The value after "key" and one of ":= " in the first line that starts with it (blanks skipped).
std::string value_of(const std::string& text, const std::string& key);

}  // namespace plait
