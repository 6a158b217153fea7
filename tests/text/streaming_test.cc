// Detokeniser, stop strings, reasoning and tool calls: whatever the cuts, the joined result is one.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/reasoning_parser.h"
#include "text/stop_matcher.h"
#include "text/text_rig.h"
#include "text/tool_call_parser.h"

namespace plait {
namespace {

// Cuts `text` into pieces: of one byte, of random sizes, and not at all.
void for_all_cuts(const std::string& text,
                  const std::function<void(const std::vector<std::string>&)>& check) {
  for (int round = 0; round < 12; ++round) {
    std::vector<std::string> pieces;
    uint64_t state = static_cast<uint64_t>(round) * 77 + 5;
    for (size_t i = 0; i < text.size();) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const size_t size = round == 0 ? 1 : round == 1 ? text.size() : 1 + (state >> 33) % 9;
      pieces.push_back(text.substr(i, size));
      i += size;
    }
    check(pieces);
  }
}

TEST(Utf8Stream, ReplacesWhatIsNoCharacter) {
  struct Case {
    std::string bytes, text;
  };
  const std::string bad = "\xef\xbf\xbd";
  const std::vector<Case> cases = {
      {"a\xc3\xa9", "a\xc3\xa9"},
      {"\xf0\x9f\x99\x82!", "\xf0\x9f\x99\x82!"},
      {"\xf0\x9f\x99", bad},              // breaks off: one for the part
      {"\xf0\x9f\x99x", bad + "x"},       // a maximal part, then a letter
      {"\xe0\x80\x80", bad + bad + bad},  // overlong: each byte by itself
      {"\xed\xa0\x80", bad + bad + bad},  // a surrogate
      {"\xff\xfe", bad + bad},
      {"\xc3\xc3\xa9", bad + "\xc3\xa9"},
      {"\x80", bad},
  };
  for (const Case& c : cases) {
    for_all_cuts(c.bytes, [&](const std::vector<std::string>& pieces) {
      Utf8Stream stream;
      std::string joined;
      for (const std::string& piece : pieces) {
        const std::string out = stream.push(piece);
        EXPECT_EQ(find_invalid_utf8(out), std::string_view::npos);
        joined += out;
      }
      EXPECT_EQ(joined + stream.finish(), c.text);
    });
  }
}

struct Stopped {
  std::string text;
  std::optional<std::string> stop;
  bool operator==(const Stopped&) const = default;
};

Stopped run_stop(const std::vector<std::string>& pieces, const std::vector<std::string>& stops,
                 bool include = false) {
  StopMatcher matcher(stops, include);
  std::string joined;
  for (const std::string& piece : pieces) {
    joined += matcher.push(piece);
  }
  if (!matcher.matched()) {
    joined += matcher.finish();
  }
  return {joined, matcher.matched()};
}

TEST(StopMatcher, NothingOfAStopIsSent) {
  for_all_cuts("one ababac two END three", [](const std::vector<std::string>& pieces) {
    EXPECT_EQ(run_stop(pieces, {"END"}), (Stopped{"one ababac two ", "END"}));
    EXPECT_EQ(run_stop(pieces, {"abac", "END"}), (Stopped{"one ab", "abac"}));
    EXPECT_EQ(run_stop(pieces, {"END"}, true), (Stopped{"one ababac two END", "END"}));
    EXPECT_EQ(run_stop(pieces, {"three!"}), (Stopped{"one ababac two END three", std::nullopt}));
    // Both end at one place: the longer one counts.
    EXPECT_EQ(run_stop(pieces, {"ND", " END"}), (Stopped{"one ababac two", " END"}));
    EXPECT_EQ(run_stop(pieces, {}), (Stopped{"one ababac two END three", std::nullopt}));
  });
}

TEST(StopMatcher, SendsAtOnceWhatCannotBeginAStop) {
  StopMatcher matcher({"\n\nUser:"});
  EXPECT_EQ(matcher.push("hello\n"), "hello");
  EXPECT_EQ(matcher.push("x"), "\nx");
  EXPECT_EQ(matcher.push("\n\nUse"), "");
  EXPECT_EQ(matcher.push("d"), "\n\nUsed");
}

TEST(StopMatcher, RefusesAnEmptyStop) {
  EXPECT_THROW(StopMatcher({"a", ""}), Error);
}

struct Thought {
  std::string reasoning, content;
  bool operator==(const Thought&) const = default;
};

Thought run_reasoning(const std::vector<std::string>& pieces, ReasoningStart start) {
  ReasoningParser parser(start);
  Thought joined;
  const auto add = [&](const ReasoningParser::Delta& delta) {
    joined.reasoning += delta.reasoning;
    joined.content += delta.content;
  };
  for (const std::string& piece : pieces) {
    add(parser.push(piece));
  }
  add(parser.finish());
  return joined;
}

TEST(ReasoningParser, SplitsThinkingFromAnswer) {
  for_all_cuts("<think>\nI  think\n</think>\n\nThe answer\n", [](const std::vector<std::string>&
                                                                     pieces) {
    EXPECT_EQ(run_reasoning(pieces, ReasoningStart::kByTag), (Thought{"I  think", "The answer\n"}));
    EXPECT_EQ(run_reasoning(pieces, ReasoningStart::kNever),
              (Thought{"", "<think>\nI  think\n</think>\n\nThe answer\n"}));
  });
  for_all_cuts("so it is</think>Yes <b> 1 < 2", [](const std::vector<std::string>& pieces) {
    EXPECT_EQ(run_reasoning(pieces, ReasoningStart::kInside),
              (Thought{"so it is", "Yes <b> 1 < 2"}));
  });
  for_all_cuts("no thought at all <thin", [](const std::vector<std::string>& pieces) {
    EXPECT_EQ(run_reasoning(pieces, ReasoningStart::kByTag),
              (Thought{"", "no thought at all <thin"}));
  });
  for_all_cuts("<think>cut off </thi", [](const std::vector<std::string>& pieces) {
    EXPECT_EQ(run_reasoning(pieces, ReasoningStart::kByTag), (Thought{"cut off </thi", ""}));
  });
}

TEST(ReasoningParser, ThePromptDecidesHowItStarts) {
  EXPECT_EQ(reasoning_start("<|im_start|>assistant\n"), ReasoningStart::kByTag);
  EXPECT_EQ(reasoning_start("<|im_start|>assistant\n<think>\n"), ReasoningStart::kInside);
  EXPECT_EQ(reasoning_start("assistant\n<think>\n\n</think>\n\n"), ReasoningStart::kNever);
  EXPECT_EQ(reasoning_start(""), ReasoningStart::kByTag);
}

struct Calls {
  std::string content;
  std::vector<std::pair<std::string, std::string>> calls;
  bool operator==(const Calls&) const = default;
};

Calls run_tools(const std::vector<std::string>& pieces) {
  ToolCallParser parser;
  Calls joined;
  const auto add = [&](const std::vector<ToolEvent>& events) {
    for (const ToolEvent& event : events) {
      if (event.kind == ToolEvent::Kind::kContent) {
        joined.content += event.text;
      } else if (event.kind == ToolEvent::Kind::kCallStart) {
        EXPECT_EQ(event.index, std::ssize(joined.calls));
        joined.calls.emplace_back(event.text, "");
      } else {
        joined.calls.at(static_cast<size_t>(event.index)).second += event.text;
      }
    }
  };
  for (const std::string& piece : pieces) {
    add(parser.push(piece));
  }
  add(parser.finish());
  EXPECT_EQ(parser.num_calls(), std::ssize(joined.calls));
  return joined;
}

TEST(ToolCallParser, FindsCallsHoweverTheTextIsCut) {
  struct Case {
    std::string text;
    Calls calls;
  };
  const std::vector<Case> cases = {
      {"just text <tool", {"just text <tool", {}}},
      {"Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": "
       "\"}\\\"\"}]}}"
       "\n</tool_call>",
       {"Let me see.", {{"f", "{\"a\": [1, {\"b\": \"}\\\"\"}]}"}}}},
      {"<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
       "<tool_call>{\"name\":\"g\\u00e9\",\"arguments\":{\"x\":\"</tool_call>\"}}</tool_call>",
       {"", {{"f", "{}"}, {"g\xc3\xa9", "{\"x\":\"</tool_call>\"}"}}}},
      // Another order, arguments as a string, none at all.
      {"<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>",
       {"", {{"f", "{\"a\":1}"}}}},
      {"<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
       {"", {{"f", "{\"a\": 1}"}}}},
      {"<tool_call>{\"name\": \"f\"}</tool_call>", {"", {{"f", "{}"}}}},
      {"<tool_call>{\"name\": \"f\"}", {"", {{"f", "{}"}}}},
      // No calls: the text stays.
      {"a <tool_call>\nnonsense\n</tool_call> b", {"a <tool_call>\nnonsense\n</tool_call> b", {}}},
      {"<tool_call>{\"nam", {"<tool_call>{\"nam", {}}},
      // Breaks off within the arguments.
      {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1</tool_call> rest",
       {" rest", {{"f", "{\"a\": 1"}}}},
      {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x", {"", {{"f", "{\"a\": \"x"}}}},
  };
  for (const Case& c : cases) {
    for_all_cuts(c.text, [&](const std::vector<std::string>& pieces) {
      const Calls calls = run_tools(pieces);
      EXPECT_EQ(calls.content, c.calls.content) << c.text;
      EXPECT_EQ(calls.calls, c.calls.calls) << c.text;
    });
  }
}

TEST(ToolCallParser, ArgumentsArriveBeforeTheCallEnds) {
  ToolCallParser parser;
  parser.push("<tool_call>{\"name\": \"f\", \"arguments\": {\"text\": \"long");
  const std::vector<ToolEvent> events = parser.push(" and longer");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, ToolEvent::Kind::kArguments);
  EXPECT_EQ(events[0].text, " and longer");
}

}  // namespace
}  // namespace plait
