#include "plan/readers/shell_state.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"

namespace plait {
namespace {

constexpr size_t kMaxCharacters = 4 << 20;  // of all expansions together
constexpr int64_t kMaxSteps = 200000;
constexpr size_t kMaxNotes = 200;

}  // namespace

bool ShellText::known() const {
  return std::all_of(origins.begin(), origins.end(), [](int32_t origin) { return origin >= 0; });
}

ShellText known_text(std::string_view chars, int line) {
  ShellText text;
  text.chars = std::string(chars);
  text.origins.assign(chars.size(), line);
  return text;
}

ShellState::ShellState(std::string origin, const ShellOptions& options)
    : origin_(std::move(origin)), settings_(options.settings) {
  for (const auto& [name, value] : options.environment) {
    variables_[name] = {.items = {known_text(value, 0)}, .exported = true};
  }
  for (const auto& [name, value] : settings_) {
    variables_[name] = {.items = {known_text(value, 0)}, .exported = false};
  }
  for (int i = 1; settings_.count(std::to_string(i)) > 0; ++i) {
    given_.push_back(known_text(settings_[std::to_string(i)], 0));
  }
}

const ShellVariable* ShellState::find(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

void ShellState::assign(const std::string& name, std::vector<ShellText> items, int line) {
  if (!is_pinned(name)) {
    variables_[name].items = std::move(items);
    variables_[name].line = line;
  }
}

void ShellState::mark_exported(const std::string& name) {
  const auto found = variables_.find(name);
  if (found != variables_.end()) {
    found->second.exported = true;
  }
}

void ShellState::restore(std::map<std::string, ShellVariable> before, const ShellBranch& branch) {
  const std::string decides =
      fmt::format("line {} decides ({}){}", branch.line, branch.what,
                  branch.reason.empty() ? "" : ", which it does not here: " + branch.reason);
  std::vector<std::string> kept;
  for (auto& [name, variable] : variables_) {
    const auto earlier = before.find(name);
    if (earlier == before.end()) {
      ShellText text = make_unknown(
          "$" + name, {fmt::format("{} is set only where {}", name, decides), branch.line, false});
      before[name] = {.items = {std::move(text)}, .exported = variable.exported};
      continue;
    }
    const auto differs = [](const ShellText& a, const ShellText& b) { return a.chars != b.chars; };
    const auto& now = variable.items;
    const auto& then = earlier->second.items;
    bool changed = now.size() != then.size();
    for (size_t i = 0; !changed && i < now.size(); ++i) {
      changed = differs(now[i], then[i]);
    }
    const bool was_empty = then.size() == 1 && then[0].chars.empty();
    if (changed && was_empty) {
      // Emptied first, to be filled from arguments.
      ShellText text = make_unknown(
          "$" + name, {fmt::format("{} is empty before {}", name, decides), branch.line, true});
      earlier->second.items = {std::move(text)};
    } else if (changed) {
      kept.push_back(name);
    }
  }
  variables_ = std::move(before);
  if (!kept.empty()) {
    note(assumptions,
         fmt::format("{} is not decided: what it would change keeps its earlier value ({})",
                     branch.what, fmt::join(kept, ", ")),
         branch.line);
  }
}

void ShellState::set_undecided(const ShellText& text) {
  if (const ShellUnknown* first = first_unknown(text)) {
    undecided_reason_ = first->reason;
  }
}

ShellText ShellState::make_unknown(std::string_view shown, ShellUnknown unknown) {
  constexpr size_t kShownMax = 60;
  const std::string text(shown.substr(0, kShownMax));
  charge(text.size(), unknown.line);
  size_t index = 0;
  while (index < unknowns_.size() &&
         (unknowns_[index].reason != unknown.reason || unknowns_[index].line != unknown.line)) {
    ++index;
  }
  if (index == unknowns_.size()) {
    unknowns_.push_back(std::move(unknown));
  }
  return known_text(text, -1 - static_cast<int>(index));
}

const ShellUnknown* ShellState::first_unknown(const ShellText& text) const {
  for (const int32_t origin : text.origins) {
    if (origin < 0) {
      return &unknown(origin);
    }
  }
  return nullptr;
}

bool ShellState::only_outside(const ShellText& text) const {
  return !text.origins.empty() &&
         std::all_of(text.origins.begin(), text.origins.end(),
                     [&](int32_t origin) { return origin < 0 && unknown(origin).outside; });
}

ShellWord ShellState::to_word(const ShellText& text) const {
  ShellWord word{.text = text.chars, .line = 0, .unknown = {}};
  for (const int32_t origin : text.origins) {
    if (origin > 0) {
      word.line = origin;
      break;
    }
  }
  if (const ShellUnknown* first = first_unknown(text)) {
    word.unknown = first->reason;
    word.line = word.line > 0 ? word.line : first->line;
  }
  return word;
}

std::optional<ShellText> ShellState::argument(int index) const {
  const std::vector<ShellText>& list = arguments_.empty() ? given_ : arguments_.back();
  if (index >= 1 && index <= static_cast<int>(list.size())) {
    return list[static_cast<size_t>(index) - 1];
  }
  const auto set = arguments_.empty() ? settings_.find(std::to_string(index)) : settings_.end();
  if (set != settings_.end()) {
    return known_text(set->second, 0);
  }
  return std::nullopt;
}

void ShellState::note(std::vector<Note>& list, std::string text, int line) {
  if (list.size() < kMaxNotes && noted_.insert(fmt::format("{}:{}", line, text)).second) {
    list.push_back({std::move(text), {origin_, line}});
  }
}

void ShellState::charge(size_t characters, int line) {
  characters_ += characters;
  if (characters_ > kMaxCharacters || ++steps_ > kMaxSteps) {
    fail(line, "the script expands to more than plait reads (a loop, or a value that doubles)");
  }
}

void ShellState::fail(int line, const std::string& what) const {
  throw_error(ErrorCode::kInvalidArgument, "{}:{}: {}", origin_, line, what);
}

bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  size_t star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    bool one = false;
    size_t next = p + 1;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
      continue;
    }
    if (p < pattern.size() && pattern[p] == '[') {
      const size_t close = pattern.find(']', p + 2);
      if (close != std::string_view::npos) {
        std::string_view set = pattern.substr(p + 1, close - p - 1);
        const bool negated = set[0] == '!' || set[0] == '^';
        set.remove_prefix(negated ? 1 : 0);
        bool in = false;
        for (size_t i = 0; i < set.size(); ++i) {
          const bool range = i + 2 < set.size() && set[i + 1] == '-';
          in = in || (range ? set[i] <= text[t] && text[t] <= set[i + 2] : set[i] == text[t]);
          i += range ? 2 : 0;
        }
        one = in != negated;
        next = close + 1;
      }
    } else if (p < pattern.size()) {
      one = pattern[p] == '?' || pattern[p] == text[t];
    }
    if (one) {
      p = next;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

}  // namespace plait
