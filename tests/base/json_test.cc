#include "base/json_full.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace plait {
namespace {

TEST(Json, ErrorsNameOriginAndByte) {
  try {
    parse_json("{\"a\": tru}", "config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_NE(error.message().find("config.json: byte"), std::string::npos);
  }
}

TEST(Json, DepthIsBounded) {
  EXPECT_THROW(parse_json(std::string(100000, '['), "x"), Error);
  EXPECT_NO_THROW(parse_json("[\"" + std::string(1000, '[') + "\"]", "x"));
}

TEST(Json, InvalidUtf8IsReplacedOnOutput) {
  const Json value = "a\xff";
  EXPECT_NO_THROW(dump_json(value));
}

// Comparing each key with all before it would take minutes.
TEST(Json, ManyKeysAreNoTrouble) {
  std::string text = "{";
  for (int i = 0; i < 60000; ++i) {
    text += "\"k" + std::to_string(i % 50000) + "\": " + std::to_string(i) + ", ";
  }
  const Json json = parse_json(text + "\"last\": [{\"a\": 1, \"a\": {\"b\": 2}}]}", "x");
  EXPECT_EQ(json.size(), 50001U);
  EXPECT_EQ(json.begin().key(), "k0");
  EXPECT_EQ(json.begin().value(), 50000);  // of equal keys the last value, in the first's place
  EXPECT_EQ(dump_json(json.back()), "[{\"a\":{\"b\":2}}]");
}

}  // namespace
}  // namespace plait
