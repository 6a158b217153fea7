// The template engine against python3-jinja2, text for text.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "support/test_files.h"
#include "text/chat_template.h"
#include "text/text_rig.h"

namespace plait {
namespace {

constexpr int64_t kNow = 1721995200;  // 2024-07-26 12:00:00, as in jinja_oracle.py

bool have_oracle() {
  static const bool have = std::system("python3 -c 'import jinja2' > /dev/null 2>&1") == 0;
  return have;
}

Json run_oracle(const Json& cases) {
  const TestFolder folder;
  std::string lines;
  for (const Json& each : cases) {
    lines += dump_json(each) + "\n";
  }
  write_file_atomic(folder.file("cases"), lines);
  const std::string command = std::string("python3 ") + PLAIT_JINJA_ORACLE + " " +
                              folder.file("cases") + " " + folder.file("answers");
  EXPECT_EQ(std::system(command.c_str()), 0);
  Json answers = Json::array();
  std::istringstream input(read_file(folder.file("answers")));
  for (std::string line; std::getline(input, line);) {
    answers.push_back(parse_json(line, "answers"));
  }
  return answers;
}

Json render(const Json& each) {
  try {
    const Json& tokens = each.at("tokens");
    const ChatTemplate chat(each.at("template").get<std::string>(),
                            {.bos_token = tokens.value("bos_token", ""),
                             .eos_token = tokens.value("eos_token", ""),
                             .pad_token = ""},
                            "template");
    return {{"text", join_segments(chat.render(
                         {.messages = &each.at("messages"),
                          .tools = &each.at("tools"),
                          .kwargs = &each.at("kwargs"),
                          .add_generation_prompt = each.at("add_generation_prompt").get<bool>(),
                          .now_s = kNow}))}};
  } catch (const Error& error) {
    return {{"error", error.message()}};
  }
}

// A case that fails must fail in both; the messages are each engine's own.
void compare(const Json& cases) {
  const Json answers = run_oracle(cases);
  ASSERT_EQ(answers.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Json ours = render(cases[i]);
    const std::string shown = dump_json(cases[i], 1) + "\njinja2: " + dump_json(answers[i]) +
                              "\nplait:  " + dump_json(ours);
    if (answers[i].contains("text")) {
      EXPECT_TRUE(ours.contains("text") && ours["text"] == answers[i]["text"]) << shown;
    } else {
      EXPECT_TRUE(ours.contains("error")) << shown;
    }
  }
}

Json make_case(const std::string& source) {
  return {{"template", source},
          {"messages", {{{"role", "user"}, {"content", "hi"}}}},
          {"tools", nullptr},
          {"kwargs", Json::object()},
          {"tokens", {{"bos_token", "<s>"}, {"eos_token", "</s>"}}},
          {"add_generation_prompt", true}};
}

TEST(JinjaOracle, Snippets) {
  if (!have_oracle()) {
    GTEST_SKIP() << "python3-jinja2 is not installed";
  }
  const Json variables = parse_json(
      R"({"a": "axb", "b": [1, "two"], "none": null, "flag": true, "list": [1, 2, 3, 4],
          "text": "h\u00e9\u4e16\ud83d\ude42", "dict": {"k": "v", "n": 2, "B": [true, null]},
          "objects": [{"name": "x", "n": 1, "flag": true}, {"name": "y", "n": 2, "flag": false}]})",
      "variables");
  Json cases = Json::array();
  std::istringstream lines(read_text_data("jinja_snippets.txt"));
  std::string snippet;
  const auto add = [&] {
    if (!snippet.empty()) {
      Json each = make_case(snippet);
      each["kwargs"] = variables;
      cases.push_back(each);
    }
  };
  for (std::string line; std::getline(lines, line);) {
    if (line == "----") {
      add();
      snippet.clear();
    } else {
      snippet += line + "\n";
    }
  }
  add();
  ASSERT_GT(cases.size(), 50U);
  compare(cases);
}

Json conversations() {
  return parse_json(read_text_data("conversations.json"), "conversations.json");
}

class Families : public testing::TestWithParam<const char*> {};

TEST_P(Families, RendersConversationsAsJinja2) {
  if (!have_oracle()) {
    GTEST_SKIP() << "python3-jinja2 is not installed";
  }
  const std::string source = read_text_data(std::string("templates/") + GetParam() + ".jinja");
  Json cases = Json::array();
  for (const Json& conversation : conversations()) {
    for (const bool prompt : {true, false}) {
      Json each = make_case(source);
      each.update(conversation);
      each["add_generation_prompt"] = prompt;
      cases.push_back(each);
    }
  }
  compare(cases);
}

INSTANTIATE_TEST_SUITE_P(All, Families,
                         testing::Values("chatml_default_system", "thinking_tools", "header_tools",
                                         "macro_tools"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace plait
