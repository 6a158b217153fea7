// The repository's text files, as the tidy rules see them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plait::tidy {

struct TextFile {
  std::string path;                // relative to the root, with '/'
  std::vector<std::string> lines;  // as they stand
  // As `lines`, column for column, with blanks for comments and for what is inside string and
  // character literals (their quotes stay). Files that are not C++ have a copy of `lines`.
  std::vector<std::string> code;
};

using Tree = std::vector<TextFile>;

// One broken rule. `message` says what is wrong and, after ';', what to do instead. Line 0: the
// file as a whole.
struct Finding {
  std::string path;
  int64_t line = 0;
  std::string message;
};

using Findings = std::vector<Finding>;

TextFile make_text_file(std::string path, std::string_view content);

// Sources, tests, benchmarks, docs, scripts and build files below `root`, sorted by path. Leaves
// out test data and whatever is not a text file of a known kind.
Tree read_tree(const std::string& root);

bool is_cpp(const TextFile& file);
bool is_header(const TextFile& file);

// True if `path` starts with one of `prefixes`.
bool is_below(std::string_view path, const std::vector<std::string>& prefixes);

// Path of an #include "..." or #include <...> line without its quotes; empty for other lines.
std::string included_path(const TextFile& file, size_t index);

// Position of `token` in `text` from `from` on, not as the tail of a longer identifier; npos if
// none.
size_t find_token(std::string_view text, std::string_view token, size_t from = 0);

}  // namespace plait::tidy
