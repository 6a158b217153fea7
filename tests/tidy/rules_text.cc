#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include <fmt/format.h>

#include "tidy/rules.h"

namespace plait::tidy {
namespace {

int64_t number(size_t index) {
  return static_cast<int64_t>(index) + 1;
}

bool is_tidy_test(const TextFile& file) {
  return file.path.starts_with("tests/tidy/");
}

// "invalid_argument" for "kInvalidArgument".
std::string snake_name(const std::string& constant) {
  std::string name;
  for (size_t i = 1; i < constant.size(); ++i) {
    const auto c = static_cast<unsigned char>(constant[i]);
    if (std::isupper(c) != 0 && i > 1) {
      name += '_';
    }
    name += static_cast<char>(std::tolower(c));
  }
  return name;
}

void check_line(const TextFile& file, size_t i, Findings& findings) {
  const std::string& line = file.lines[i];
  const auto report = [&](const std::string& message) {
    findings.push_back({file.path, number(i), message});
  };
  // Prose is wrapped by its author; tables and links cannot be.
  const bool is_prose = file.path.ends_with(".md");
  if (static_cast<int64_t>(line.size()) > kColumnsMax && !is_prose) {
    report(fmt::format("{} columns, {} are allowed; break the line", line.size(), kColumnsMax));
  }
  if (line.find('\t') != std::string::npos) {
    report("tab; use spaces");
  }
  if (line.ends_with(' ') || line.ends_with('\r')) {
    report("blank or carriage return at the end of the line; remove it");
  }
  for (const char c : line) {
    if (static_cast<unsigned char>(c) >= 0x80) {
      report("a character outside ASCII; write it in ASCII, or as an escape in a string");
      break;
    }
  }
}

// True if `word` stands in the line and is no TODO with its issue (nor mkdtemp's row of X).
bool has_open_end(const std::string& line, const std::string& word) {
  const size_t at = find_token(line, word);
  if (at == std::string::npos || line.substr(at).starts_with("TODO(#")) {
    return false;
  }
  const size_t end = at + word.size();
  return end == line.size() || std::isalnum(static_cast<unsigned char>(line[end])) == 0;
}

// Targets of the inline links of one line: [text](target).
std::vector<std::string> link_targets(const std::string& line) {
  std::vector<std::string> targets;
  for (size_t at = line.find("]("); at != std::string::npos; at = line.find("](", at + 1)) {
    const size_t end = line.find(')', at);
    if (end != std::string::npos) {
      targets.push_back(line.substr(at + 2, end - at - 2));
    }
  }
  return targets;
}

// Resolves "a/b/../c" and "./x" against the folder of `path`.
std::string resolve(const std::string& path, const std::string& target) {
  std::vector<std::string> parts;
  std::string joined = path.substr(0, path.rfind('/') + 1) + target + "/";
  while (!joined.empty()) {
    const size_t slash = joined.find('/');
    const std::string part = joined.substr(0, slash);
    joined = joined.substr(slash + 1);
    if (part == ".." && !parts.empty()) {
      parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
  }
  return fmt::format("{}", fmt::join(parts, "/"));
}

}  // namespace

Findings check_lines(const Tree& tree) {
  Findings findings;
  for (const TextFile& file : tree) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      check_line(file, i, findings);
    }
  }
  return findings;
}

Findings check_banned_tokens(const Tree& tree) {
  Findings findings;
  for (const TextFile& file : tree) {
    if (is_tidy_test(file)) {
      continue;
    }
    for (size_t i = 0; i < file.lines.size(); ++i) {
      for (const char* word : {"FIXME", "XXX", "HACK", "TODO"}) {
        if (has_open_end(file.lines[i], word)) {
          findings.push_back(
              {file.path, number(i), fmt::format("'{}'; do it now, or write TODO(#issue)", word)});
        }
      }
      if (!is_cpp(file)) {
        continue;
      }
      for (const BannedToken& banned : banned_tokens()) {
        if (find_token(file.code[i], banned.token) != std::string::npos &&
            !is_below(file.path, banned.places)) {
          findings.push_back(
              {file.path, number(i),
               fmt::format("'{}' is banned here; {}", banned.token, banned.instead)});
        }
      }
    }
  }
  return findings;
}

Findings check_catch_sites(const Tree& tree) {
  Findings findings;
  std::set<std::string> used;
  for (const TextFile& file : tree) {
    if (!is_cpp(file) || !is_below(file.path, {"src/"})) {
      continue;
    }
    const auto& sites = catch_sites();
    const bool listed = file.path.starts_with("src/cli/") ||
                        std::any_of(sites.begin(), sites.end(),
                                    [&](const CatchSite& site) { return site.path == file.path; });
    for (size_t i = 0; i < file.code.size(); ++i) {
      if (find_token(file.code[i], "catch (") == std::string::npos) {
        continue;
      }
      used.insert(file.path);
      if (!listed) {
        findings.push_back({file.path, number(i),
                            "errors are caught at few places; let it pass, or list the file with "
                            "its reason in tests/tidy/tables.cc"});
      }
    }
  }
  for (const CatchSite& site : catch_sites()) {
    if (used.count(site.path) == 0) {
      findings.push_back({site.path, 0,
                          "listed as a catch site but catches nothing; remove its line from "
                          "tests/tidy/tables.cc"});
    }
  }
  return findings;
}

Findings check_backend_names(const Tree& tree) {
  Findings findings;
  for (const TextFile& file : tree) {
    if (!is_cpp(file) || !file.path.starts_with("src/") || is_below(file.path, backend_places())) {
      continue;
    }
    for (size_t i = 0; i < file.lines.size(); ++i) {
      for (const std::string& name : backend_names()) {
        const std::string literal = "\"" + name + "\"";
        const size_t at = file.lines[i].find(literal);
        const bool is_default = file.lines[i].find("std::string device = ") != std::string::npos;
        if (at != std::string::npos && file.code[i][at] == '"' && !is_default) {
          findings.push_back({file.path, number(i),
                              fmt::format("backend {} is named here; ask the device or the group "
                                          "for what it can do",
                                          literal)});
        }
      }
    }
  }
  return findings;
}

Findings check_doc_links(const Tree& tree) {
  std::set<std::string> known;
  for (const TextFile& file : tree) {
    for (size_t at = file.path.find('/'); at != std::string::npos;
         at = file.path.find('/', at + 1)) {
      known.insert(file.path.substr(0, at));
    }
    known.insert(file.path);
  }
  Findings findings;
  for (const TextFile& file : tree) {
    if (!file.path.ends_with(".md")) {
      continue;
    }
    for (size_t i = 0; i < file.lines.size(); ++i) {
      for (const std::string& target : link_targets(file.lines[i])) {
        if (target.find("://") != std::string::npos || target.starts_with("#")) {
          continue;
        }
        const std::string path = resolve(file.path, target.substr(0, target.find('#')));
        if (known.count(path) == 0) {
          findings.push_back(
              {file.path, number(i),
               fmt::format("link to '{}' leads nowhere; mend or remove it", target)});
        }
      }
    }
  }
  return findings;
}

Findings check_error_codes(const Tree& tree) {
  std::string documented;
  const TextFile* header = nullptr;
  for (const TextFile& file : tree) {
    if (file.path == "docs/errors.md") {
      documented = fmt::format("{}", fmt::join(file.lines, "\n"));
    } else if (file.path == "src/base/error.h") {
      header = &file;
    }
  }
  Findings findings;
  bool inside = false;
  for (size_t i = 0; header != nullptr && i < header->code.size(); ++i) {
    const std::string& line = header->code[i];
    if (line.starts_with("enum class ErrorCode")) {
      inside = true;
    } else if (line.starts_with("}")) {
      inside = false;
    } else if (inside && line.find('k') != std::string::npos) {
      const size_t start = line.find('k');
      const std::string name =
          snake_name(line.substr(start, line.find_first_of(", =", start) - start));
      if (documented.find("`" + name + "`") == std::string::npos) {
        findings.push_back(
            {header->path, number(i),
             fmt::format("error code {} has no row in docs/errors.md; add it", name)});
      }
    }
  }
  return findings;
}

}  // namespace plait::tidy
