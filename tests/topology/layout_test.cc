#include "topology/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"

namespace plait {
namespace {

std::string message_of(const std::string& text) {
  try {
    parse_layout(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  }
  ADD_FAILURE() << "'" << text << "' was accepted";
  return "";
}

void expect_refused(const std::string& text, const std::string& part) {
  EXPECT_NE(message_of(text).find(part), std::string::npos) << message_of(text);
  EXPECT_NE(message_of(text).find("'" + text + "'"), std::string::npos) << message_of(text);
}

Layout random_layout(std::mt19937_64& random) {
  const auto degree = [&] { return static_cast<int>(random() % 3 == 0 ? 1 : random() % 99 + 1); };
  Layout layout;
  layout.dp = degree();
  layout.tp = degree();
  layout.pp = degree();
  layout.vpp = degree();
  layout.cp = degree();
  layout.ep = degree();
  layout.sp = random() % 2 == 0;
  layout.zero = static_cast<int>(random() % 4);
  if (layout.vpp > 1) {
    layout.schedule = ScheduleKind::kInterleaved;
  }
  return layout;
}

TEST(Layout, TextRoundTrips) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const Layout layout = random_layout(random);
    const std::string text = to_string(layout);
    ASSERT_EQ(parse_layout(text), layout) << text;
    ASSERT_EQ(to_string(parse_layout(text)), text);
  }
}

TEST(Layout, PartsComeInAnyOrderAndWithAnySeparator) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    const Layout layout = random_layout(random);
    std::vector<std::string> parts;
    std::string part;
    for (const char c : to_string(layout) + ".") {
      if (c == '.') {
        parts.push_back(part);
        part.clear();
      } else {
        part += c;
      }
    }
    std::shuffle(parts.begin(), parts.end(), random);
    std::string text;
    for (const std::string& piece : parts) {
      text += text.empty() ? piece : std::string(1, ".,x"[random() % 3]) + piece;
    }
    ASSERT_EQ(parse_layout(text), layout) << text;
  }
}

TEST(Layout, CanonicalText) {
  EXPECT_EQ(to_string(Layout{}), "dp1");
  EXPECT_EQ(to_string(Layout{.zero = 1}), "dp1.zero1");
  EXPECT_EQ(to_string(parse_layout("zero1,sp,pp2xtp2xdp2")), "dp2.tp2.pp2.sp.zero1");
  EXPECT_EQ(to_string(parse_layout("vpp2.pp2")), "pp2.vpp2");
  EXPECT_EQ(to_string(parse_layout("tp1.sp0.zero0")), "dp1");
}

TEST(Layout, ChangesOnlyWhatIsNamed) {
  Layout base;
  base.tp = 4;
  base.recompute = Recompute::kFull;
  base.stage_layers = {3, 1};
  const Layout layout = parse_layout("pp2.sp", base);
  EXPECT_EQ(layout.tp, 4);
  EXPECT_EQ(layout.pp, 2);
  EXPECT_TRUE(layout.sp);
  EXPECT_EQ(layout.recompute, Recompute::kFull);
  EXPECT_EQ(layout.stage_layers, base.stage_layers);
  EXPECT_EQ(layout.schedule, ScheduleKind::kOneFOneB);
  EXPECT_EQ(parse_layout("pp2.vpp2").schedule, ScheduleKind::kInterleaved);
  base.schedule = ScheduleKind::kGpipe;
  EXPECT_EQ(parse_layout("pp2.vpp2", base).schedule, ScheduleKind::kGpipe);
}

TEST(Layout, TyposNameTheNearestPart) {
  expect_refused("dq2", "did you mean 'dp'");
  expect_refused("pd2.tp2", "did you mean 'dp'");
  expect_refused("tp2.DP2", "did you mean 'dp'");
  expect_refused("tpp2", "did you mean 'tp'");
  expect_refused("vp2", "did you mean");
  expect_refused("vppp2", "did you mean 'vpp'");
  expect_refused("zreo1", "did you mean 'zero'");
  expect_refused("dp2.spp", "did you mean 'sp'");
  expect_refused("cp-2", "did you mean 'cp'");
}

// Every single-letter slip in a part gives an error that names the part and what is allowed.
TEST(Layout, RandomTyposAreNeverAccepted) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const char* names[] = {"dp", "tp", "pp", "vpp", "cp", "ep", "zero"};
    std::string word = names[random() % 7];
    const std::string original = word;
    const size_t at = random() % word.size();
    switch (random() % 3) {
      case 0:
        word[at] = static_cast<char>('a' + random() % 26);
        break;
      case 1:
        word.insert(at, 1, static_cast<char>('a' + random() % 26));
        break;
      default:
        word.erase(at, 1);
        break;
    }
    const std::string separators = ".,x";
    const bool valid = std::ranges::find(names, word) != std::end(names) || word == "sp";
    if (valid || word.find_first_of(separators) != std::string::npos) {
      continue;
    }
    expect_refused(word + "1.dp2", "part '" + word + "1'");
    expect_refused("sp." + word + "1", "dp2.tp2.pp2.sp.zero1");
  }
}

TEST(Layout, RefusesBadForms) {
  expect_refused("", "empty");
  expect_refused("dp2.", "not a name followed by a number");
  expect_refused("dp2..tp2", "not a name followed by a number");
  expect_refused("2dp", "not a name followed by a number");
  expect_refused("dp2a", "not a name followed by a number");
  expect_refused("dp 2", "did you mean 'dp'");
  expect_refused("dp", "a number is missing; try 'dp1'");
  expect_refused("zero", "a number is missing; try 'zero0'");
  expect_refused("tp0", "at least 1");
  expect_refused("sp2", "its degree is tp");
}

TEST(Layout, RefusesDuplicates) {
  expect_refused("dp2.dp2", "given twice");
  expect_refused("dp2.tp2,dp4", "given twice");
  expect_refused("sp.sp", "given twice");
  expect_refused("sp.sp0", "given twice");
}

TEST(Layout, RefusesNumbersThatOverflow) {
  expect_refused("dp1000001", "at most 1000000");
  expect_refused("tp4294967297", "at most 1000000");
  expect_refused("pp99999999999999999999999", "at most 1000000");
  expect_refused("zero99999999999999999999999", "at most 1000000");
  expect_refused("sp99999999999999999999999", "its degree is tp");
  EXPECT_EQ(parse_layout("dp1000000").dp, 1000000);
}

TEST(Layout, RecomputeAndScheduleNames) {
  for (const Recompute value : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    EXPECT_EQ(parse_recompute(recompute_name(value)), value);
  }
  for (const ScheduleKind value :
       {ScheduleKind::kGpipe, ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved}) {
    EXPECT_EQ(parse_schedule(schedule_name(value)), value);
  }
  const auto message = [](const auto& parse, const char* name) {
    try {
      parse(name);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.message();
    }
    return std::string("accepted");
  };
  EXPECT_NE(message(parse_recompute, "selectiv").find("did you mean 'selective'"),
            std::string::npos);
  EXPECT_NE(message(parse_recompute, "").find("none, selective and full"), std::string::npos);
  EXPECT_NE(message(parse_schedule, "1F1B").find("did you mean '1f1b'"), std::string::npos);
  EXPECT_NE(message(parse_schedule, "g-pipe").find("did you mean 'gpipe'"), std::string::npos);
}

TEST(Layout, SplitsCoverAllLayers) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    Layout layout;
    layout.pp = static_cast<int>(random() % 6 + 1);
    layout.vpp = static_cast<int>(random() % 3 + 1);
    const auto stages = static_cast<size_t>(layout.num_virtual_stages());
    int64_t layers = static_cast<int64_t>(stages * (random() % 5));
    if (random() % 2 == 0) {
      for (size_t v = 0; v < stages; ++v) {
        layout.stage_layers.push_back(static_cast<int64_t>(random() % 5));
      }
      layers = std::accumulate(layout.stage_layers.begin(), layout.stage_layers.end(), int64_t{0});
    }
    const std::vector<LayerRange> ranges = split_layers(layout, layers);
    ASSERT_EQ(ranges.size(), stages);
    int64_t next = 0;
    for (size_t v = 0; v < stages; ++v) {
      ASSERT_EQ(ranges[v].begin, next);
      ASSERT_EQ(ranges[v].count(), layout.stage_layers.empty()
                                       ? layers / static_cast<int64_t>(stages)
                                       : layout.stage_layers[v]);
      next = ranges[v].end;
    }
    ASSERT_EQ(next, layers);
  }
}

// What validation refuses must not run silently if it is forgotten.
TEST(LayoutDeathTest, NeverDropsALayer) {
  EXPECT_DEATH(split_layers(Layout{.pp = 16, .vpp = 2}, 80), "check failed");
  Layout uneven{.pp = 2};
  uneven.stage_layers = {11, 13};
  EXPECT_DEATH(split_layers(uneven, 48), "check failed");
  uneven.stage_layers = {48};
  EXPECT_DEATH(split_layers(uneven, 48), "check failed");
}

}  // namespace
}  // namespace plait
