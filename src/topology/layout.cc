#include "topology/layout.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/suggest.h"

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

constexpr int kMaxDegree = 1000000;

enum class PartForm : uint8_t { kWord, kWordAndNumber, kOther };
struct SplitPart {
  PartForm form = PartForm::kOther;
  std::string_view word;
  int number = 0;  // the largest int if what was given is larger
};
// Letters in front and the number behind.
SplitPart split_part(std::string_view part) {
  const size_t digit = part.find_first_of("0123456789");
  SplitPart split{.word = part.substr(0, digit)};
  if (split.word.empty()) {
    return split;
  }
  if (digit == std::string_view::npos) {
    split.form = PartForm::kWord;
    return split;
  }
  const char* end = part.data() + part.size();
  const auto [stop, error] = std::from_chars(part.data() + digit, end, split.number);
  if (stop == end) {
    split.form = PartForm::kWordAndNumber;
    if (error != std::errc()) {
      split.number = std::numeric_limits<int>::max();
    }
  }
  return split;
}

// The likelier ones first: sp alone has no number.
std::vector<std::string> part_names(PartForm form) {
  std::vector<std::string> names;
  for (const DegreePart& part : kDegreeParts) {
    names.emplace_back(part.name);
  }
  names.insert(form == PartForm::kWord ? names.begin() : names.end(), "sp");
  return names;
}

[[noreturn]] void bad_part(const std::string& text, std::string_view part, const std::string& why) {
  throw_error(ErrorCode::kInvalidArgument, "layout '{}': part '{}': {}; allowed are {}", text, part,
              why, kAllowedParts);
}

void apply_part(const std::string& text, std::string_view part, Layout& layout) {
  const SplitPart split = split_part(part);
  if (split.form == PartForm::kOther) {
    bad_part(text, part, "not a name followed by a number");
  }
  if (split.word == "sp") {
    const int on = split.form == PartForm::kWord ? 1 : split.number;
    if (on > 1) {
      bad_part(text, part, "sp is on or off; its degree is tp; try 'sp'");
    }
    layout.sp = on == 1;
    return;
  }
  for (const DegreePart& known : kDegreeParts) {
    if (split.word != known.name) {
      continue;
    }
    const int least = known.field == &Layout::zero ? 0 : 1;
    if (split.form == PartForm::kWord) {
      bad_part(text, part, fmt::format("a number is missing; try '{}{}'", known.name, least));
    }
    if (split.number < least || split.number > kMaxDegree) {
      bad_part(text, part,
               fmt::format("the number must be at least {} and at most {}; try '{}{}'", least,
                           kMaxDegree, known.name, least));
    }
    layout.*known.field = split.number;
    return;
  }
  bad_part(
      text, part,
      fmt::format("unknown; did you mean '{}'?", closest_name(split.word, part_names(split.form))));
}

}  // namespace

const char* recompute_name(Recompute recompute) {
  static constexpr const char* kNames[] = {"none", "selective", "full"};
  return kNames[static_cast<size_t>(recompute)];
}

const char* schedule_name(ScheduleKind schedule) {
  static constexpr const char* kNames[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
  return kNames[static_cast<size_t>(schedule)];
}

Recompute parse_recompute(const std::string& name) {
  for (const Recompute value : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    if (name == recompute_name(value)) {
      return value;
    }
  }
  throw_error(ErrorCode::kInvalidArgument,
              "recompute '{}' is unknown; allowed are none, selective and full; did you mean '{}'?",
              name, closest_name(name, {"none", "selective", "full"}));
}

ScheduleKind parse_schedule(const std::string& name) {
  for (const ScheduleKind value : {ScheduleKind::kGpipe, ScheduleKind::kOneFOneB,
                                   ScheduleKind::kInterleaved, ScheduleKind::kZeroBubbleH1}) {
    if (name == schedule_name(value)) {
      return value;
    }
  }
  throw_error(ErrorCode::kInvalidArgument,
              "schedule '{}' is unknown; allowed are gpipe, 1f1b, interleaved and (planned only) "
              "zb-h1; did "
              "you mean '{}'?",
              name, closest_name(name, {"gpipe", "1f1b", "interleaved", "zb-h1"}));
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
  if (!layout.stage_layers.empty()) {
    CHECK_EQ(static_cast<int64_t>(layout.stage_layers.size()), stages);
  }
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
