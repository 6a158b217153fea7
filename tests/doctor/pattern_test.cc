#include "doctor/pattern.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace plait {
namespace {

bool matches(const char* pattern, const char* line) {
  return Pattern(pattern).match(line, nullptr);
}

Captures captured(const char* pattern, const char* line) {
  Captures captures;
  EXPECT_TRUE(Pattern(pattern).match(line, &captures)) << pattern;
  return captures;
}

TEST(Pattern, LiteralsIgnoreCaseOfLetters) {
  EXPECT_TRUE(matches("lost heartbeat", "Device[0] Lost Heartbeat."));
  EXPECT_FALSE(matches("lost heartbeat", "lost heart beat"));
  EXPECT_TRUE(matches("\xe5\x86\x85\xe5\xad\x98", "NPU \xe5\x86\x85\xe5\xad\x98"));
}

TEST(Pattern, ABlankIsAnyNumberOfThem) {
  EXPECT_TRUE(matches("Rx Los Flag : 0xf", "Rx Los Flag          : 0xff"));
  EXPECT_FALSE(matches("Rx Los Flag : 0xf", "RxLos Flag: 0xff"));
}

TEST(Pattern, GapsAndEdges) {
  EXPECT_TRUE(matches("abc*xyz", "1 abc 2 xyz 3"));
  EXPECT_FALSE(matches("abc*xyz", "xyz abc"));
  EXPECT_TRUE(matches("~507015~", "error code is 507015[Error]"));
  EXPECT_FALSE(matches("~507015~", "address 0x15070152"));
  EXPECT_FALSE(matches("~EI0002~", "XEI00020"));
}

TEST(Pattern, CapturesByType) {
  const Captures row = captured("| {host:h}({rank:d}) | {:d} | * time out",
                                "|  192.0.2.8(1)  |  16666 | a | time out |");
  EXPECT_EQ(row.at("host"), "192.0.2.8");
  EXPECT_EQ(row.at("rank"), "1");
  EXPECT_EQ(row.size(), 2U);
  const Captures code = captured("event_id: [{id:x}]", "[fault] event_id: [0x80E01809]");
  EXPECT_EQ(code.at("id"), "0x80E01809");
  EXPECT_EQ(captured("free {n:f} {unit:w}", "free 7.47 MiB;").at("n"), "7.47");
  EXPECT_EQ(captured("agent[{list:l}]", "agent[1,3,5,] x").at("list"), "1,3,5,");
  EXPECT_EQ(captured("symbol: {name}", "undefined symbol: _ZN3 (x)").at("name"), "_ZN3");
  EXPECT_EQ(captured("reason: {r:s}", "reason: out of range. more").at("r"), "out of range");
}

TEST(Pattern, KeepsNothingWithoutAMatch) {
  Captures captures;
  EXPECT_FALSE(Pattern("port {port:d} is*taken").match("port 60000 is free", &captures));
  EXPECT_TRUE(captures.empty());
}

TEST(Pattern, TheAnchorIsInEveryMatch) {
  EXPECT_EQ(Pattern("ab*longest part").anchor(), "longest part");
  EXPECT_EQ(Pattern("Flag : 0xff").anchor(), ": 0xff");
}

TEST(Pattern, RefusesWhatCannotBeSearched) {
  EXPECT_THROW(Pattern("{x}"), Error);
  EXPECT_THROW(Pattern("a*b"), Error);
  EXPECT_THROW(Pattern("abc {x"), Error);
  EXPECT_THROW(Pattern("abc {x:q}"), Error);
  EXPECT_THROW(Pattern(""), Error);
}

}  // namespace
}  // namespace plait
