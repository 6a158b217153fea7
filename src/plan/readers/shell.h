// Reads a launch script without running anything: variables, quotes, arrays, defaults and
// arithmetic are resolved, and what the script would run is returned as words with their lines.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plan/readers/source_line.h"

namespace plait {

// One word of a command after all expansions.
struct ShellWord {
  std::string text;     // unknown parts stand in it as they are written: "$1", "$(nproc)"
  int line = 0;         // of its first character: of the assignment that it came from
  std::string unknown;  // why part of it is not known; empty: all of it is known

  bool known() const { return unknown.empty(); }
};

struct ShellCommand {
  std::vector<ShellWord> words;
  std::map<std::string, ShellWord> environment;  // what the script exports to it
  int line = 0;
};

struct ShellOptions {
  // Values that the script does not get to change: of variables, and of its arguments ("1", "2").
  std::map<std::string, std::string> settings;
  // The environment that it starts in: exported, and its own to change.
  std::map<std::string, std::string> environment = {};
};

struct ShellScript {
  std::string origin;
  std::vector<ShellCommand> commands;  // all that are not assignments or builtins, in order
  std::map<std::string, ShellCommand> held_commands;  // words of variables, by name
  std::vector<Note> not_evaluated;             // constructs that only running them would resolve
  std::vector<Note> assumptions;               // defaults taken, branches not taken
  std::map<std::string, ShellWord> variables;  // at the end, those that are not exported
  std::map<std::string, ShellWord> files;      // here-documents by the file they are written to
};

// A file that the script writes, or that a manifest carries: by its path, or its name alone. Null
// if there is none.
const ShellWord* find_file(const ShellScript& script, const std::string& path);

// Supported: comments, continuations, quotes, assignments (also += and arrays), ${X} with :- := :+
// :? # % and lengths, $((...)), export, if/for/while/case with conditions that are known,
// functions, here-documents, eval, bash -c, and the counts of #SBATCH lines. A branch that cannot
// be decided does not run: what it would set keeps its earlier value, or is unknown. Command
// substitution, source and the like are listed in `not_evaluated`. Work is bounded. Errors:
// kInvalidArgument "ORIGIN:LINE: ..." for text that is no script, bad arithmetic, or a script that
// expands without end.
ShellScript read_shell(std::string_view text, const std::string& origin,
                       const ShellOptions& options = {});

// Splits plain arguments as a script's words: no expansion.
ShellCommand plain_command(const std::vector<std::string>& words);

}  // namespace plait
