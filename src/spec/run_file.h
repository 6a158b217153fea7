// Run files: TOML that sets the options of a command.
//   [train]
//   steps = 100
//   layout = "dp2.tp2"
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace plait {

enum class RunType : uint8_t {
  kInteger,
  kNumber,  // an integer is one too
  kFlag,
  kText,
  kIntegerList,
  kNumberList,
  kTextList,
};

// "an integer", "a list of numbers", ...
const char* run_type_name(RunType type);

// A key that a command knows: "section.key", or "key" for one outside of all sections.
struct RunKey {
  std::string_view name;
  RunType type = RunType::kInteger;
};

// In the order of RunType.
using RunVariant = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>,
                                std::vector<double>, std::vector<std::string>>;

struct RunValue {
  RunVariant value;  // of the type that its key declares
  int line = 0;      // for messages about values that cannot work: "FILE: line N: ..."
};

// The keys that the file sets, by name.
using RunValues = std::map<std::string, RunValue>;

// Errors: kNotFound, kIo; kInvalidArgument with file and line: no valid TOML; an unknown key, with
// the nearest known one and those allowed; a value of another type.
RunValues load_run_file(const std::string& path, std::span<const RunKey> keys);
RunValues parse_run_file(const std::string& text, const std::string& origin,
                         std::span<const RunKey> keys);

}  // namespace plait
