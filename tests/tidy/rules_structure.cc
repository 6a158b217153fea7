#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>

#include "tidy/rules.h"

namespace plait::tidy {
namespace {

// "comm" for src/comm/local/bell.cc; empty outside src/ and for files right in it.
std::string folder_of(const std::string& path) {
  if (!path.starts_with("src/")) {
    return "";
  }
  const size_t end = path.find('/', 4);
  return end == std::string::npos ? "" : path.substr(4, end - 4);
}

const IncludeRow* find_row(const std::string& folder) {
  for (const IncludeRow& row : include_table()) {
    if (row.folder == folder) {
      return &row;
    }
  }
  return nullptr;
}

// Calls visit(file, line number from 1, path, angle brackets) for each include of a C++ file.
template <typename Visit>
void for_each_include(const Tree& tree, const Visit& visit) {
  for (const TextFile& file : tree) {
    if (!is_cpp(file)) {
      continue;
    }
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string path = included_path(file, i);
      if (!path.empty()) {
        const bool angled = file.lines[i].find('<') != std::string::npos;
        visit(file, static_cast<int64_t>(i) + 1, path, angled);
      }
    }
  }
}

bool is_isa_file(const std::string& path) {
  if (!path.starts_with("src/device/cpu/") && !path.starts_with("src/comm/")) {
    return false;
  }
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.find("avx") != std::string::npos || name.find("amx") != std::string::npos ||
         name.find("neon") != std::string::npos;
}

bool exists(const Tree& tree, const std::string& path) {
  return std::any_of(tree.begin(), tree.end(),
                     [&](const TextFile& file) { return file.path == path; });
}

// True if `text` has `word` between characters that cannot be part of a path.
bool has_path_word(const std::string& text, const std::string& word) {
  const std::string path_characters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool starts = at == 0 || path_characters.find(text[at - 1]) == std::string::npos;
    const bool ends = end == text.size() || path_characters.find(text[end]) == std::string::npos;
    if (starts && ends) {
      return true;
    }
  }
  return false;
}

bool is_listed(const Tree& tree, const std::string& source) {
  for (const TextFile& file : tree) {
    if (!file.path.ends_with("CMakeLists.txt")) {
      continue;
    }
    const std::string folder = file.path.substr(0, file.path.rfind('/') + 1);
    if (!source.starts_with(folder)) {
      continue;
    }
    const std::string relative = source.substr(folder.size());
    for (const std::string& line : file.lines) {
      if (has_path_word(line.substr(0, line.find('#')), relative)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

Findings check_folder_includes(const Tree& tree) {
  Findings findings;
  for_each_include(tree, [&](const TextFile& file, int64_t line, const std::string& path,
                             bool angled) {
    const std::string folder = folder_of(file.path);
    if (folder.empty() || angled) {
      return;
    }
    const IncludeRow* row = find_row(folder);
    if (row == nullptr) {
      findings.push_back({file.path, line,
                          fmt::format("src/{} has no row in the include table; add one in "
                                      "tests/tidy/tables.cc",
                                      folder)});
      return;
    }
    const size_t slash = path.find('/');
    if (slash == std::string::npos || path.starts_with(".")) {
      findings.push_back({file.path, line,
                          fmt::format("include of \"{}\" is not rooted; write it from src/ on, as "
                                      "\"{}/...\"",
                                      path, folder)});
      return;
    }
    const std::string target = path.substr(0, slash);
    const auto& allowed = row->may_include;
    if (target != folder && target != "base" &&
        std::find(allowed.begin(), allowed.end(), target) == allowed.end()) {
      findings.push_back({file.path, line,
                          fmt::format("{}/ may not include {}/; move the code down, or pass in "
                                      "what is needed",
                                      folder, target)});
    }
  });
  return findings;
}

Findings check_vendor_headers(const Tree& tree) {
  Findings findings;
  for_each_include(tree, [&](const TextFile& file, int64_t line, const std::string& path, bool) {
    for (const VendorRow& row : vendor_table()) {
      const bool matches =
          path == row.header || (path.starts_with(row.header) && !row.header.ends_with(".h"));
      if (!matches || is_below(file.path, row.places) ||
          (row.isa_files && is_isa_file(file.path))) {
        continue;
      }
      const std::string places =
          row.isa_files ? "a file of device/cpu/ or comm/ named after its instruction set"
                        : fmt::format("{}", fmt::join(row.places, ", "));
      findings.push_back(
          {file.path, line,
           fmt::format("<{}> is out of its place; move the code to {}", path, places)});
    }
  });
  return findings;
}

Findings check_heavy_headers(const Tree& tree) {
  Findings findings;
  for_each_include(tree, [&](const TextFile& file, int64_t line, const std::string& path, bool) {
    if (!is_header(file) || file.path == "src/base/json_full.h" ||
        file.path == "src/base/toml_full.h") {
      return;
    }
    if (path == "iostream" || path == "regex" || is_below(path, heavy_headers())) {
      findings.push_back({file.path, line,
                          fmt::format("<{}> in a header; forward-declare the type and include it "
                                      "in the .cc file",
                                      path)});
    }
  });
  return findings;
}

Findings check_own_header_first(const Tree& tree) {
  Findings findings;
  for (const TextFile& file : tree) {
    if (!file.path.starts_with("src/") || !file.path.ends_with(".cc")) {
      continue;
    }
    const std::string header = file.path.substr(0, file.path.size() - 2) + "h";
    if (!exists(tree, header)) {
      continue;
    }
    std::string first;
    int64_t line = 0;
    for (size_t i = 0; i < file.lines.size() && first.empty(); ++i) {
      first = included_path(file, i);
      line = static_cast<int64_t>(i) + 1;
    }
    if ("src/" + first != header) {
      findings.push_back({file.path, line,
                          fmt::format("the first include is not the file's own header; put "
                                      "\"{}\" first",
                                      header.substr(4))});
    }
  }
  return findings;
}

Findings check_dead_headers(const Tree& tree) {
  std::set<std::string> included;
  for_each_include(tree, [&](const TextFile& file, int64_t, const std::string& path, bool) {
    const std::string stem = path.substr(0, path.rfind('.'));
    if (file.path != "src/" + stem + ".cc") {
      included.insert(path);
    }
  });
  Findings findings;
  for (const TextFile& file : tree) {
    if (file.path.starts_with("src/") && is_header(file) &&
        included.count(file.path.substr(4)) == 0) {
      findings.push_back({file.path, 0,
                          "no other file includes this header; remove it, or move what it "
                          "declares into its .cc file"});
    }
  }
  return findings;
}

Findings check_listed_sources(const Tree& tree) {
  Findings findings;
  for (const TextFile& file : tree) {
    const bool watched = is_below(file.path, {"src/", "tests/", "bench/", "fuzz/"});
    if (watched && file.path.ends_with(".cc") && !is_listed(tree, file.path)) {
      findings.push_back({file.path, 0,
                          "no CMakeLists.txt lists this file; add it to its folder's, or remove "
                          "the file"});
    }
  }
  return findings;
}

Findings check_file_names(const Tree& tree) {
  const std::set<std::string> banned = {"util",   "utils", "helper", "helpers",
                                        "common", "misc",  "manager"};
  Findings findings;
  for (const TextFile& file : tree) {
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    std::string word;
    for (const char c : name + ".") {
      if (c != '_' && c != '.') {
        word += c;
        continue;
      }
      if (banned.count(word) != 0) {
        findings.push_back({file.path, 0,
                            fmt::format("'{}' says nothing and attracts everything; name the file "
                                        "after its one concept",
                                        word)});
      }
      word.clear();
    }
  }
  return findings;
}

}  // namespace plait::tidy
