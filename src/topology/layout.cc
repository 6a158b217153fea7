#include "topology/layout.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace plait {
namespace {

struct DegreePart {
  const char* name;
  int Layout::*field;
};
constexpr DegreePart kDegreeParts[] = {
    {"dp", &Layout::dp}, {"tp", &Layout::tp}, {"pp", &Layout::pp},    {"vpp", &Layout::vpp},
    {"cp", &Layout::cp}, {"ep", &Layout::ep}, {"zero", &Layout::zero}};
constexpr const char* kAllowedParts =
    "dpN, tpN, ppN, vppN, cpN, epN, zeroN and sp, for example dp2.tp2.pp2.sp.zero1";

// Letters in front and the number behind; nothing if `part` is not of that form.
struct SplitPart {
  std::string_view word;
  std::optional<int> number;
};
std::optional<SplitPart> split_part(std::string_view part) {
  const size_t digit = part.find_first_of("0123456789");
  if (digit == std::string_view::npos) {
    return SplitPart{part, std::nullopt};
  }
  int number = 0;
  const char* end = part.data() + part.size();
  const auto [stop, error] = std::from_chars(part.data() + digit, end, number);
  if (error != std::errc() || stop != end) {
    return std::nullopt;
  }
  return SplitPart{part.substr(0, digit), number};
}

// Levenshtein distance, for "did you mean".
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

std::string nearest_part(std::string_view word) {
  std::string best = "sp";
  size_t best_distance = edit_distance(word, best);
  for (const DegreePart& part : kDegreeParts) {
    const size_t distance = edit_distance(word, part.name);
    if (distance < best_distance) {
      best_distance = distance;
      best = part.name;
    }
  }
  return best;
}

[[noreturn]] void bad_part(const std::string& text, std::string_view part, const std::string& why) {
  throw_error(ErrorCode::kInvalidArgument, "layout '{}': part '{}': {}; allowed are {}", text, part,
              why, kAllowedParts);
}

void apply_part(const std::string& text, std::string_view part, Layout& layout) {
  const std::optional<SplitPart> split = split_part(part);
  if (!split || split->word.empty()) {
    bad_part(text, part, "not a name followed by a number");
  }
  if (split->word == "sp") {
    if (split->number.value_or(1) > 1) {
      bad_part(text, part, "sp is on or off; its degree is tp");
    }
    layout.sp = split->number.value_or(1) == 1;
    return;
  }
  for (const DegreePart& known : kDegreeParts) {
    if (split->word != known.name) {
      continue;
    }
    if (!split->number) {
      bad_part(text, part, "a number is missing");
    }
    const int least = known.field == &Layout::zero ? 0 : 1;
    if (*split->number < least || *split->number > 1000000) {
      bad_part(text, part, fmt::format("must be at least {} and at most 1000000", least));
    }
    layout.*known.field = *split->number;
    return;
  }
  bad_part(text, part, fmt::format("unknown; did you mean '{}'?", nearest_part(split->word)));
}

}  // namespace

const char* recompute_name(Recompute recompute) {
  static constexpr const char* kNames[] = {"none", "selective", "full"};
  return kNames[static_cast<size_t>(recompute)];
}

const char* schedule_name(ScheduleKind schedule) {
  static constexpr const char* kNames[] = {"gpipe", "1f1b", "interleaved"};
  return kNames[static_cast<size_t>(schedule)];
}

Recompute parse_recompute(const std::string& name) {
  for (const Recompute value : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    if (name == recompute_name(value)) {
      return value;
    }
  }
  throw_error(ErrorCode::kInvalidArgument,
              "recompute '{}' is unknown; allowed are none, selective and full", name);
}

ScheduleKind parse_schedule(const std::string& name) {
  for (const ScheduleKind value :
       {ScheduleKind::kGpipe, ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved}) {
    if (name == schedule_name(value)) {
      return value;
    }
  }
  throw_error(ErrorCode::kInvalidArgument,
              "schedule '{}' is unknown; allowed are gpipe, 1f1b and interleaved", name);
}

Layout parse_layout(const std::string& text, const Layout& base) {
  Layout layout = base;
  std::vector<std::string> seen;
  std::string_view rest = text;
  if (rest.empty()) {
    bad_part(text, "", "empty");
  }
  while (true) {
    const size_t end = rest.find_first_of(".,x");
    const std::string_view part = rest.substr(0, end);
    const std::string word(part.substr(0, part.find_first_of("0123456789")));
    if (std::find(seen.begin(), seen.end(), word) != seen.end()) {
      bad_part(text, part, "given twice");
    }
    seen.push_back(word);
    apply_part(text, part, layout);
    if (end == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(end + 1);
  }
  if (layout.vpp > 1 && layout.schedule == ScheduleKind::kOneFOneB) {
    layout.schedule = ScheduleKind::kInterleaved;
  }
  return layout;
}

std::string to_string(const Layout& layout) {
  std::string text;
  const auto append = [&](const std::string& part) { text += text.empty() ? part : "." + part; };
  for (const DegreePart& part : kDegreeParts) {
    if (part.field != &Layout::zero && layout.*part.field > 1) {
      append(fmt::format("{}{}", part.name, layout.*part.field));
    }
  }
  if (text.empty()) {
    text = "dp1";
  }
  if (layout.sp) {
    append("sp");
  }
  if (layout.zero > 0) {
    append(fmt::format("zero{}", layout.zero));
  }
  return text;
}

std::vector<LayerRange> split_layers(const Layout& layout, int64_t num_layers) {
  std::vector<LayerRange> ranges;
  const int64_t stages = layout.num_virtual_stages();
  int64_t begin = 0;
  for (int64_t v = 0; v < stages; ++v) {
    const int64_t count = layout.stage_layers.empty() ? num_layers / stages
                                                      : layout.stage_layers[static_cast<size_t>(v)];
    ranges.push_back({begin, begin + count});
    begin += count;
  }
  CHECK_EQ(begin, num_layers);
  return ranges;
}

}  // namespace plait
