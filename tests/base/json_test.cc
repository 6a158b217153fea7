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

}  // namespace
}  // namespace plait
