// Text of shell scripts. Internal to plan/export.
#pragma once

#include <string>
#include <vector>

namespace plait {

// Quotes for a shell where that is needed. Expansions ("$X") stay as they are only if the caller
// writes them in double quotes itself.
std::string shell_quoted(const std::string& text);

// A variable that the user sets before the script runs.
struct ScriptVariable {
  std::string name;
  std::string help;       // one line
  std::string otherwise;  // the default; empty: it must be set
};

// The comment that lists the variables, and the lines that check or set them.
std::string script_variables(const std::vector<ScriptVariable>& variables);

// "#!/usr/bin/env bash", the headline and where it comes from as comments, `extra` below (lines of
// their own), then "set -euo pipefail".
struct ScriptHead {
  std::string headline;
  std::string kind;        // of the export
  std::string directives;  // "#SBATCH ..." lines, which must come first
  std::string usage;       // lines without '#'
};
std::string script_head(const ScriptHead& head);

// A word or two of an argument list: a flag and its value, written as they are.
struct ScriptFlag {
  std::string name;
  std::string value;  // quoted already; empty: a bare flag
};

// "NAME=(\n  --a 1\n  --b\n)\n"
std::string script_array(const std::string& name, const std::vector<ScriptFlag>& flags);

}  // namespace plait
