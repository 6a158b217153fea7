// The tidy rules. Each takes the whole tree and returns what breaks it; none stops at the first.
#pragma once

#include <vector>

#include "tidy/tables.h"
#include "tidy/tree.h"

namespace plait::tidy {

// Structure (rules_structure.cc).
Findings check_folder_includes(const Tree& tree);   // the include table; rooted paths
Findings check_vendor_headers(const Tree& tree);    // vendor headers stay in their folders
Findings check_heavy_headers(const Tree& tree);     // heavy headers only in .cc files
Findings check_own_header_first(const Tree& tree);  // x.cc proves that x.h compiles alone
Findings check_dead_headers(const Tree& tree);      // every header is included by another file
Findings check_listed_sources(const Tree& tree);    // every .cc stands in a CMakeLists.txt
Findings check_file_names(const Tree& tree);        // no utils, helpers, common, misc, manager

// Text (rules_text.cc).
Findings check_lines(const Tree& tree);  // 100 columns, ASCII, no tabs, no blanks at the end
Findings check_banned_tokens(const Tree& tree);  // and open ends such as FIXME
Findings check_catch_sites(const Tree& tree);    // only at the listed sites
Findings check_backend_names(const Tree& tree);  // only in registries and backend folders
Findings check_doc_links(const Tree& tree);      // relative links in .md files
Findings check_error_codes(const Tree& tree);    // each code has its row in docs/errors.md

// Size (rules_size.cc).
struct FunctionSpan {
  std::string name;  // up to its parenthesis
  int64_t line = 0;  // of its first word, from 1
  int64_t lines = 0;
};
// Functions with a body at namespace or class level, found by matching braces: macros that hide a
// brace confuse it, lambdas count as part of the function around them.
std::vector<FunctionSpan> find_functions(const TextFile& file);
Findings check_sizes(const Tree& tree, const std::vector<SizeWaiver>& waivers);

}  // namespace plait::tidy
