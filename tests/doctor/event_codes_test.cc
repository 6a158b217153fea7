#include "doctor/event_codes.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(EventCodes, ChipEventsAreComposed) {
  EXPECT_EQ(chip_event("80A58008").meaning, "L3 tag cache: multi-bit ECC error");
  EXPECT_EQ(chip_event("80C98009").meaning, "AI Core: error on its bus");
  EXPECT_EQ(chip_event("80E24E00").meaning, "power management (LPM): its heartbeat was lost");
  EXPECT_EQ(chip_event("8C064E00").meaning,
            "a process of the device's system: its heartbeat was lost");
  EXPECT_EQ(chip_event("12345678").meaning, "");
  EXPECT_EQ(chip_event("80").meaning, "");
  EXPECT_TRUE(is_hardware_event("80CF8008"));
  EXPECT_FALSE(is_hardware_event("80CF8003"));
  EXPECT_FALSE(is_hardware_event("8C064E00"));
}

TEST(EventCodes, MindieCodesAreComposed) {
  EXPECT_EQ(mindie_code("MIE03E100709").meaning, "communication failed");
  EXPECT_EQ(mindie_code("MIE05E010002").name, "MindIE LLM engine");
  EXPECT_EQ(mindie_code("MIE05E0100FF").meaning, "");
  EXPECT_EQ(mindie_code("MIE").meaning, "");
}

TEST(EventCodes, FieldsOfAnEventGiveItsCode) {
  Captures captures = {{"event_node", "0x66"}, {"event_sensor", "0xc0"}, {"event_state", "8"}};
  add_event_words(captures);
  EXPECT_EQ(captures["event"], "80CD8008");
  EXPECT_NE(captures["event_meaning"], "");
  Captures unknown = {{"event", "0x1234"}};
  add_event_words(unknown);
  EXPECT_FALSE(unknown.contains("event_meaning"));
}

}  // namespace
}  // namespace plait
