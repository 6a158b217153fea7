#include "base/csv.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace plait {
namespace {

TEST(Csv, QuotesMarksAndLineEnds) {
  const CsvTable table = parse_csv(
      "\xef\xbb\xbf"
      "a,b\r\n1,\"x, \"\"y\"\"\nz\"\r\n\r\n2,\n",
      "t.csv");
  EXPECT_EQ(table.header, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(table.rows.size(), size_t{2});
  EXPECT_EQ(table.rows[0].fields[1], "x, \"y\"\nz");
  EXPECT_EQ(table.rows[0].line, 2);
  EXPECT_EQ(table.rows[1].line, 5);
  EXPECT_EQ(table.rows[1].fields[1], "");
  EXPECT_EQ(table.column("b"), 1);
  EXPECT_EQ(table.column("c"), -1);
}

TEST(Csv, ErrorsNameTheLine) {
  const auto message = [](const std::string& text) {
    try {
      parse_csv(text, "t.csv");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_NE(message("a,b\n1\n").find("t.csv:2:"), std::string::npos);
  EXPECT_NE(message("a,b\n1,\"x\n").find("t.csv:2: a quote"), std::string::npos);
  EXPECT_NE(message("a,a\n").find("twice"), std::string::npos);
  EXPECT_NE(message("").find("empty"), std::string::npos);
}

}  // namespace
}  // namespace plait
