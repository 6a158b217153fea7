#include "tidy/tree.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "base/file.h"

namespace plait::tidy {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Blanks comments and the inside of literals, one character at a time, keeping line breaks.
class Blanker {
 public:
  explicit Blanker(std::string_view text) : text_(text), out_(text) {}

  std::string run() {
    while (at_ < text_.size()) {
      step();
    }
    return std::move(out_);
  }

 private:
  bool looking_at(std::string_view word) const { return text_.substr(at_).starts_with(word); }

  void blank_until(size_t end) {
    for (end = std::min(end, text_.size()); at_ < end; ++at_) {
      if (text_[at_] != '\n') {
        out_[at_] = ' ';
      }
    }
  }

  // Position just past `word`, searched from `from`; the end of the text if it is missing.
  size_t past(std::string_view word, size_t from) const {
    const size_t found = text_.find(word, from);
    return found == std::string_view::npos ? text_.size() : found + word.size();
  }

  void step() {
    if (looking_at("//")) {
      blank_until(text_.find('\n', at_));
    } else if (looking_at("/*")) {
      blank_until(past("*/", at_ + 2));
    } else if (looking_at("R\"") && (at_ == 0 || !is_word(text_[at_ - 1]))) {
      const size_t open = text_.find('(', at_);
      const std::string close = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
      const size_t end = past(close, open);
      at_ += 2;
      blank_until(end - 1);
      ++at_;
    } else if (text_[at_] == '"' || (text_[at_] == '\'' && !in_number())) {
      literal(text_[at_]);
    } else {
      ++at_;
    }
  }

  void literal(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
      end += text_[end] == '\\' ? 2 : 1;
    }
    ++at_;
    blank_until(end);
    ++at_;
  }

  // True at the digit separator of 1'000.
  bool in_number() const {
    size_t start = at_;
    while (start > 0 && (is_word(text_[start - 1]) || text_[start - 1] == '\'')) {
      --start;
    }
    return start < at_ && std::isdigit(static_cast<unsigned char>(text_[start])) != 0;
  }

  std::string_view text_;
  std::string out_;
  size_t at_ = 0;
};

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

bool has_ending(std::string_view path, const std::vector<std::string>& endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](const std::string& ending) { return path.ends_with(ending); });
}

bool is_text(const std::string& path) {
  return has_ending(path, {".cc", ".h", ".inc", ".md", ".cmake", ".txt", ".py", ".sh", ".supp"}) ||
         path.starts_with("scripts/") || path.starts_with(".ci/");
}

}  // namespace

TextFile make_text_file(std::string path, std::string_view content) {
  TextFile file;
  file.path = std::move(path);
  file.lines = split_lines(content);
  file.code = is_cpp(file) ? split_lines(Blanker(content).run()) : file.lines;
  return file;
}

Tree read_tree(const std::string& root) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_regular_file()) {
      paths.push_back(entry.path().filename().string());
    }
  }
  for (const char* folder :
       {"src", "tests", "bench", "fuzz", "docs", "cmake", "scripts", "tools", "examples", ".ci"}) {
    const fs::path top = fs::path(root) / folder;
    if (!fs::exists(top)) {
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(top)) {
      if (entry.is_regular_file()) {
        paths.push_back(fs::relative(entry.path(), root).generic_string());
      }
    }
  }
  std::sort(paths.begin(), paths.end());
  Tree tree;
  for (const std::string& path : paths) {
    if (is_text(path) && !is_below(path, {"tests/data/", "fuzz/corpus/"})) {
      tree.push_back(make_text_file(path, read_file(root + "/" + path)));
    }
  }
  return tree;
}

bool is_cpp(const TextFile& file) {
  return has_ending(file.path, {".cc", ".h", ".inc"});
}

bool is_header(const TextFile& file) {
  return file.path.ends_with(".h");
}

bool is_below(std::string_view path, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return path.starts_with(prefix); });
}

std::string included_path(const TextFile& file, size_t index) {
  const std::string& line = file.lines[index];
  if (!file.code[index].starts_with("#include ")) {
    return "";
  }
  const size_t open = line.find_first_of("\"<");
  const size_t close = line.find_first_of("\">", open + 1);
  return open == std::string::npos || close == std::string::npos
             ? ""
             : line.substr(open + 1, close - open - 1);
}

size_t find_token(std::string_view text, std::string_view token, size_t from) {
  for (size_t at = text.find(token, from); at != std::string_view::npos;
       at = text.find(token, at + 1)) {
    if (at == 0 || !is_word(token.front()) || !is_word(text[at - 1])) {
      return at;
    }
  }
  return std::string_view::npos;
}

}  // namespace plait::tidy
