// The grammar of launch scripts: a bounded subset of Bash, parsed into a tree. Nothing is expanded
// and nothing is ever run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

// A word as it stands in the script, with its quotes and expansions.
struct RawWord {
  std::string text;
  int line = 0;
};

struct Redirect {
  std::string op;  // ">", ">>", "<", "<<", "<<<", ">&", ...
  RawWord target;
  RawWord body;              // of "<<"
  bool body_quoted = false;  // the delimiter was quoted: the body is literal
};

struct ShellNode;
using ShellNodes = std::vector<std::unique_ptr<ShellNode>>;

struct ShellNode {
  enum class Kind : uint8_t {
    kSimple,      // words, redirects
    kTest,        // words between [[ and ]]
    kArithmetic,  // words[0] between (( and ))
    kList,        // children in order
    kPipeline,    // children joined by |
    kAndOr,       // children; ops[i] ("&&", "||") stands before children[i + 1]
    kNot,         // children[0]
    kIf,          // condition, body, condition, body, ..., and a last body if has_else
    kLoop,        // children: condition (absent for "for"), body; words: name and items of "for"
    kCase,        // words[0] is matched; patterns[i] belongs to children[i]
    kGroup,       // children[0] in braces or parentheses
    kFunction,    // words[0] is the name, children[0] the body
  };
  Kind kind = Kind::kSimple;
  int line = 0;
  std::vector<RawWord> words;
  std::vector<Redirect> redirects;
  ShellNodes children;
  std::vector<std::string> ops;
  std::vector<std::vector<RawWord>> patterns;
  bool has_else = false;
  bool is_for = false;
  bool is_subshell = false;  // of kGroup
};

constexpr size_t kMaxScriptBytes = 4 << 20;

// Parses a script; `origin` is named in errors. A byte order mark and carriage returns at line ends
// are skipped. Errors: kInvalidArgument "ORIGIN:LINE: ..." for text that is not in the grammar, is
// nested too deeply or too long.
ShellNodes parse_shell(std::string_view text, const std::string& origin, int first_line = 1);

// Words of an array literal's inside, "a 'b c' # comment \n d".
std::vector<RawWord> split_array_words(const RawWord& inside, const std::string& origin);

// One past the closing bracket, brace or quote of the construct that begins at `begin` of `text`
// ('...', "...", `...`, $'...', ${...}, $(...), $((...)), <(...)); npos if it never closes.
size_t skip_shell_construct(std::string_view text, size_t begin, int depth = 0);

}  // namespace plait
