#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tidy/rules.h"

namespace plait::tidy {
namespace {

std::string first_word(const std::string& text) {
  const size_t end = text.find_first_of(" \n<(:{");
  return text.substr(0, end);
}

// The text without a leading template<...>.
std::string without_template(const std::string& head) {
  if (first_word(head) != "template") {
    return head;
  }
  int depth = 0;
  for (size_t i = head.find('<'); i < head.size(); ++i) {
    depth += head[i] == '<' ? 1 : head[i] == '>' ? -1 : 0;
    if (depth == 0) {
      const size_t start = head.find_first_not_of(" \n", i + 1);
      return start == std::string::npos ? "" : head.substr(start);
    }
  }
  return head;
}

bool has_assignment_outside_parentheses(const std::string& head) {
  int depth = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    depth += head[i] == '(' ? 1 : head[i] == ')' ? -1 : 0;
    if (head[i] == '=' && depth == 0) {
      return head.find("operator") == std::string::npos;
    }
  }
  return false;
}

enum class BlockKind { kScope, kFunction, kOther };

// What a '{' opens, judged by the text between it and the statement before.
BlockKind classify(const std::string& head) {
  const std::string text = without_template(head);
  static const std::set<std::string> scopes = {"namespace", "class", "struct", "union"};
  const std::string word = first_word(text);
  const bool linkage = word == "extern" && text.find('(') == std::string::npos;
  if (scopes.count(word) != 0 || linkage || text.starts_with("inline namespace")) {
    return BlockKind::kScope;
  }
  if (word == "enum" || has_assignment_outside_parentheses(text)) {
    return BlockKind::kOther;
  }
  return text.find('(') != std::string::npos ? BlockKind::kFunction : BlockKind::kOther;
}

std::string function_name(const std::string& head) {
  const std::string text = without_template(head);
  const std::string before = text.substr(0, text.find('('));
  const size_t start = before.find_last_of(" \n*&");
  std::string name = start == std::string::npos ? before : before.substr(start + 1);
  // TEST(Suite, Name) and the like are told apart by their arguments.
  const bool macro = name.size() >= 4 && std::all_of(name.begin(), name.end(), [](char c) {
                       return (c >= 'A' && c <= 'Z') || c == '_';
                     });
  return macro ? text.substr(0, text.find(')') + 1) : name;
}

// Walks the code of one file and notes each function's extent.
class FunctionFinder {
 public:
  std::vector<FunctionSpan> run(const TextFile& file) {
    bool continued = false;
    for (size_t i = 0; i < file.code.size(); ++i) {
      line_ = static_cast<int64_t>(i) + 1;
      const std::string& line = file.code[i];
      const bool directive = continued || line.starts_with("#");
      continued = directive && line.ends_with("\\");
      if (!directive) {
        for (const char c : line) {
          take(c);
        }
        take('\n');
      }
    }
    return std::move(found_);
  }

 private:
  void take(char c) {
    if (c == '{') {
      open();
    } else if (c == '}') {
      close();
    } else if (in_function_ == 0) {
      extend_head(c);
    }
  }

  void open() {
    // Of "Foo::Foo() : a_{1}, b_{2} {" the first brace looked like the body: go on from there.
    const bool resumes = after_function_ && (head_.empty() || head_.front() == ',');
    BlockKind kind = BlockKind::kOther;
    if (resumes) {
      kind = BlockKind::kFunction;
      current_ = found_.back();
      found_.pop_back();
    } else if (in_function_ == 0) {
      kind = classify(head_);
      if (kind == BlockKind::kFunction) {
        current_ = {function_name(head_), head_line_, 0};
      }
    }
    blocks_.push_back(kind);
    after_function_ = false;
    if (kind == BlockKind::kFunction || in_function_ > 0) {
      ++in_function_;
    }
    head_.clear();
  }

  void close() {
    if (blocks_.empty()) {
      return;
    }
    after_function_ = in_function_ == 1;
    if (in_function_ > 0 && --in_function_ == 0) {
      current_.lines = line_ - current_.line + 1;
      found_.push_back(current_);
    }
    blocks_.pop_back();
    head_.clear();
  }

  void extend_head(char c) {
    if (c == ';') {
      head_.clear();
      after_function_ = false;
      return;
    }
    if (head_.empty()) {
      if (c == ' ' || c == '\n') {
        return;
      }
      head_line_ = line_;
    }
    head_ += c;
    if (head_ == "public:" || head_ == "private:" || head_ == "protected:") {
      head_.clear();
    }
  }

  std::vector<FunctionSpan> found_;
  std::vector<BlockKind> blocks_;
  std::string head_;
  FunctionSpan current_;
  int64_t head_line_ = 0;
  int64_t line_ = 0;
  int in_function_ = 0;          // braces open since the function's own
  bool after_function_ = false;  // the last '}' ended what looked like a function
};

const SizeWaiver* find_waiver(const std::vector<SizeWaiver>& waivers, const std::string& path,
                              const std::string& function) {
  for (const SizeWaiver& waiver : waivers) {
    if (waiver.path == path && waiver.function == function) {
      return &waiver;
    }
  }
  return nullptr;
}

// One measured thing: a file (function empty) or a function.
struct Measure {
  std::string path;
  std::string function;
  int64_t line = 0;
  int64_t lines = 0;
  int64_t lines_max = 0;
};

std::vector<Measure> measure(const Tree& tree) {
  std::vector<Measure> measures;
  for (const TextFile& file : tree) {
    if (!is_cpp(file)) {
      continue;
    }
    measures.push_back({file.path, "", 0, static_cast<int64_t>(file.lines.size()), kFileLinesMax});
    for (const FunctionSpan& span : find_functions(file)) {
      measures.push_back({file.path, span.name, span.line, span.lines, kFunctionLinesMax});
    }
  }
  return measures;
}

}  // namespace

std::vector<FunctionSpan> find_functions(const TextFile& file) {
  return FunctionFinder().run(file);
}

Findings check_sizes(const Tree& tree, const std::vector<SizeWaiver>& waivers) {
  Findings findings;
  std::set<const SizeWaiver*> needed;
  for (const Measure& m : measure(tree)) {
    if (m.lines <= m.lines_max) {
      continue;
    }
    const SizeWaiver* waiver = find_waiver(waivers, m.path, m.function);
    needed.insert(waiver);
    const int64_t limit = waiver == nullptr ? m.lines_max : waiver->lines_max;
    if (m.lines > limit) {
      findings.push_back(
          {m.path, m.line,
           fmt::format("{} has {} lines, {} are allowed; split it by concept",
                       m.function.empty() ? "the file" : m.function, m.lines, limit)});
    }
  }
  for (const SizeWaiver& waiver : waivers) {
    if (needed.count(&waiver) == 0) {
      findings.push_back({waiver.path, 0,
                          fmt::format("the size waiver{}{} is no longer needed; remove it from "
                                      "tests/tidy/tables.cc",
                                      waiver.function.empty() ? "" : " of ", waiver.function)});
    }
  }
  return findings;
}

}  // namespace plait::tidy
