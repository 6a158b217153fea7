#include "plan/readers/flag_set.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/suggest.h"

namespace plait {
namespace {

constexpr int64_t kMostFlagValue = int64_t{1} << 40;

std::string canonical(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string name(word);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string nearest_flag(const std::string& name, const FlagTable& table) {
  // Names of another length cannot be near: most of the table is skipped.
  std::vector<std::string> candidates;
  for (const auto& [known, spec] : table) {
    const auto difference = static_cast<int64_t>(known.size()) - static_cast<int64_t>(name.size());
    if (std::abs(difference) <= 4) {
      candidates.push_back(known);
    }
  }
  const std::string nearest = nearest_name(name, candidates);
  const bool close = !nearest.empty() && edit_distance(name, nearest) <= name.size() / 4 + 1;
  return close ? "--" + nearest : "";
}

bool is_flag(const ShellWord& word) {
  return word.text.starts_with("--") && word.text.size() > 2;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

FlagSet::FlagSet(const std::vector<ShellWord>& words, const FlagTable& table, std::string origin)
    : origin_(std::move(origin)) {
  constexpr size_t kMaxUnknown = 200;
  for (size_t at = 0; at < words.size();) {
    const ShellWord& word = words[at];
    if (is_flag(word)) {
      last_was_stray_ = false;
      at = read_flag(words, at, table);
      continue;
    }
    ++at;
    if (!word.known()) {
      notes_.push_back({fmt::format("{} is taken as nothing: {}", word.text, word.unknown),
                        {origin_, word.line}});
    } else if (word.text != "\\" && unknown_.size() < kMaxUnknown) {
      add_stray(word);
    }
  }
}

// Words of one line are listed together: a path with blanks that lost its quotes.
void FlagSet::add_stray(const ShellWord& word) {
  const bool continues = !unknown_.empty() && unknown_.back().where.line == word.line &&
                         !unknown_.back().text.starts_with("-") && last_was_stray_;
  if (continues) {
    unknown_.back().text = (unknown_.back().text + " " + word.text).substr(0, 120);
  } else {
    unknown_.push_back({word.text.substr(0, 80), "", {origin_, word.line}});
  }
  last_was_stray_ = true;
}

size_t FlagSet::read_flag(const std::vector<ShellWord>& words, size_t at, const FlagTable& table) {
  const ShellWord& word = words[at++];
  FlagUse use{.written = word.text, .line = word.line, .values = {}};
  const size_t equals = word.text.find('=');
  if (equals != std::string::npos) {
    use.written = word.text.substr(0, equals);
    ShellWord value = word;
    value.text = word.text.substr(equals + 1);
    use.values.push_back(std::move(value));
  }
  const std::string name = canonical(use.written);
  const auto known = table.find(name);
  const bool is_known = known != table.end();
  const Arity arity = is_known ? known->second.arity : Arity::kMany;
  const auto value_follows = [&] { return at < words.size() && !is_flag(words[at]); };
  if (equals == std::string::npos && arity == Arity::kOne) {
    if (!value_follows()) {
      throw_error(ErrorCode::kInvalidArgument, "{}: {} needs a value",
                  SourceLine{origin_, word.line}.text(), use.written);
    }
    use.values.push_back(words[at++]);
  } else if (equals == std::string::npos && arity == Arity::kOptional && value_follows()) {
    use.values.push_back(words[at++]);
  } else if (equals == std::string::npos && arity == Arity::kMany) {
    while (value_follows()) {
      use.values.push_back(words[at++]);
    }
  }
  if (!is_known) {
    unknown_.push_back({use.written, nearest_flag(name, table), {origin_, word.line}});
    return at;
  }
  any_vendor_ = any_vendor_ || known->second.is_vendor;
  const auto earlier = uses_.find(name);
  if (earlier != uses_.end()) {
    const auto shown = [](const FlagUse& one) {
      return one.values.empty() ? std::string() : one.values.front().text.substr(0, 40);
    };
    if (shown(earlier->second) != shown(use)) {
      notes_.push_back({fmt::format("{} is given twice, {} and {}: the last one counts",
                                    use.written, shown(earlier->second), shown(use)),
                        {origin_, word.line}});
    }
  }
  uses_[name] = std::move(use);
  return at;
}

const FlagUse* FlagSet::find(std::string_view name) const {
  const auto found = uses_.find(name);
  return found == uses_.end() ? nullptr : &found->second;
}

SourceLine FlagSet::where(std::string_view name) const {
  const FlagUse* use = find(name);
  if (use == nullptr) {
    return {origin_, 0};
  }
  const bool has_value = !use->values.empty() && use->values.front().line > 0;
  return {origin_, has_value ? use->values.front().line : use->line};
}

std::optional<std::string> FlagSet::text(std::string_view name) const {
  const FlagUse* use = find(name);
  if (use == nullptr || use->values.empty()) {
    return std::nullopt;
  }
  const ShellWord& value = use->values.front();
  if (!value.known()) {
    throw_error(ErrorCode::kInvalidArgument, "{}: the value of {} is not known: {}",
                where(name).text(), use->written, value.unknown);
  }
  return value.text;
}

std::optional<int64_t> FlagSet::integer(std::string_view name, int64_t least) const {
  const std::optional<std::string> value = text(name);
  if (!value) {
    return std::nullopt;
  }
  const std::optional<int64_t> number = parse_integer(*value);
  if (!number || *number < least || *number > kMostFlagValue) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: {} is {}, but must be a whole number of at least {} and at most 2^40",
                where(name).text(), find(name)->written, value->substr(0, 60), least);
  }
  return number;
}

std::optional<double> FlagSet::number(std::string_view name) const {
  const std::optional<std::string> value = text(name);
  if (!value) {
    return std::nullopt;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc() || end != value->data() + value->size() || !std::isfinite(number)) {
    throw_error(ErrorCode::kInvalidArgument, "{}: {} is {}, but must be a number",
                where(name).text(), find(name)->written, value->substr(0, 60));
  }
  return number;
}

}  // namespace plait
