// Every field that a client can get wrong: 400 and its name, and nothing reaches the engine.
#include <gtest/gtest.h>

#include <string>

#include "base/clock.h"
#include "base/json_full.h"
#include "serve/api_rig.h"

namespace plait {
namespace {

struct BadField {
  const char* field;  // error.param
  const char* json;   // the request's own fields
};

std::string with_prompt(const char* json, const char* rest) {
  const std::string fields = json;
  return "{" + fields +
         (fields.find(rest) == std::string::npos ? (fields.empty() ? "" : ", ") + std::string(rest)
                                                 : "") +
         "}";
}

constexpr BadField kBadCommon[] = {
    {"temperature", R"("temperature": 999999)"},
    {"temperature", R"("temperature": -0.1)"},
    {"temperature", R"("temperature": "hot")"},
    {"temperature", R"("temperature": true)"},
    {"temperature", R"("temperature": 1e300)"},
    {"top_p", R"("top_p": -1)"},
    {"top_p", R"("top_p": 1.01)"},
    {"top_k", R"("top_k": -2)"},
    {"top_k", R"("top_k": 1.5)"},
    {"min_p", R"("min_p": 2)"},
    {"repetition_penalty", R"("repetition_penalty": 0)"},
    {"repetition_penalty", R"("repetition_penalty": 1e-30)"},
    {"presence_penalty", R"("presence_penalty": 2.1)"},
    {"frequency_penalty", R"("frequency_penalty": -3)"},
    {"seed", R"("seed": "x")"},
    {"seed", R"("seed": 1e30)"},
    {"n", R"("n": 0)"},
    {"n", R"("n": 5000000)"},
    {"n", R"("n": 1e18)"},
    {"best_of", R"("best_of": 3)"},
    {"max_tokens", R"("max_tokens": 0)"},
    {"max_tokens", R"("max_tokens": -5)"},
    {"max_tokens", R"("max_tokens": 2.5)"},
    {"min_tokens", R"("min_tokens": 20, "max_tokens": 10)"},
    {"stream", R"("stream": "yes")"},
    {"stream_options", R"("stream_options": {"include_usage": true})"},
    {"stream_options", R"("stream": true, "stream_options": 1)"},
    {"stream_options.include_usage", R"("stream": true, "stream_options": {"include_usage": 1})"},
    {"stop", R"("stop": "")"},
    {"stop", R"("stop": 7)"},
    {"stop[1]", R"("stop": ["a", ""])"},
    {"stop", R"("stop": [["a"]])"},
    {"stop",
     R"("stop": ["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])"},
    {"stop_token_ids", R"("stop_token_ids": [999999])"},
    {"stop_token_ids", R"("stop_token_ids": [-1])"},
    {"stop_token_ids", R"("stop_token_ids": 5)"},
    {"logit_bias", R"("logit_bias": {"999999": 1})"},
    {"logit_bias", R"("logit_bias": {"-1": 1})"},
    {"logit_bias", R"("logit_bias": {"abc": 1})"},
    {"logit_bias", R"("logit_bias": {"99999999999999999999": 1})"},
    {"logit_bias", R"("logit_bias": {"5": 101})"},
    {"logit_bias", R"("logit_bias": {"5": "x"})"},
    {"logit_bias", R"("logit_bias": [1])"},
    {"response_format", R"("response_format": {"type": "json_schema", "json_schema": {}})"},
    {"response_format", R"("response_format": {"type": "json_object"})"},
    {"response_format", R"("response_format": "text")"},
    {"guided_json", R"("guided_json": {"type": "object"})"},
    {"guided_regex", R"("guided_regex": "a+")"},
    {"allowed_token_ids", R"("allowed_token_ids": [1, 2])"},
    {"truncate_prompt_tokens", R"("truncate_prompt_tokens": 10)"},
    {"priority", R"("priority": "high")"},
    {"model", R"("model": 5)"},
    {"ignore_eos", R"("ignore_eos": 1)"},
};

constexpr BadField kBadChat[] = {
    {"messages", R"("messages": [])"},
    {"messages", R"("messages": "hi")"},
    {"messages", R"("messages": null)"},
    {"messages[0]", R"("messages": [1])"},
    {"messages[0].role", R"("messages": [{"content": "a"}])"},
    {"messages[0].role", R"("messages": [{"role": "wizard", "content": "a"}])"},
    {"messages[0].content", R"("messages": [{"role": "user"}])"},
    {"messages[0].content", R"("messages": [{"role": "user", "content": null}])"},
    {"messages[0].content", R"("messages": [{"role": "user", "content": 5}])"},
    {"messages[0].content[0]",
     R"("messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])"},
    {"messages[0].content[0]", R"("messages": [{"role": "user", "content": [{"type": "text"}]}])"},
    {"messages[1].tool_calls[0].function",
     R"("messages": [{"role": "user", "content": "a"},
                     {"role": "assistant", "tool_calls": [{}]}])"},
    {"top_logprobs", R"("top_logprobs": 5)"},
    {"top_logprobs", R"("logprobs": true, "top_logprobs": 1000000000)"},
    {"logprobs", R"("logprobs": 5)"},
    {"max_completion_tokens", R"("max_completion_tokens": 0)"},
    {"tools", R"("tools": {})"},
    {"tools[0].type", R"("tools": [{}])"},
    {"tools[0].function.name", R"("tools": [{"type": "function", "function": {}}])"},
    {"tool_choice", R"("tool_choice": "required")"},
    {"tool_choice", R"("tool_choice": {"type": "function", "function": {"name": "f"}})"},
    {"tool_choice", R"("tool_choice": "sometimes")"},
    {"chat_template_kwargs", R"("chat_template_kwargs": [])"},
    {"chat_template", R"("chat_template": "{{ 1 }}")"},
    {"functions", R"("functions": [{"name": "f"}])"},
    {"modalities", R"("modalities": ["audio"])"},
};

constexpr BadField kBadCompletion[] = {
    {"prompt", R"("prompt": [])"},
    {"prompt", R"("prompt": "")"},
    {"prompt", R"("prompt": 5)"},
    {"prompt", R"("prompt": null)"},
    {"prompt", R"("prompt": {"a": 1})"},
    {"prompt", R"("prompt": [1, "a"])"},
    {"prompt", R"("prompt": [1, 999999])"},
    {"prompt", R"("prompt": [-1])"},
    {"prompt", R"("prompt": [1.5])"},
    {"prompt[1]", R"("prompt": [[1], ["a"]])"},
    {"prompt", R"("prompt": [[1], []])"},
    {"n", R"("prompt": ["a", "b"], "n": 40)"},
    {"logprobs", R"("logprobs": 21)"},
    {"logprobs", R"("logprobs": -1)"},
    {"echo", R"("echo": true, "logprobs": 1)"},
    {"suffix", R"("suffix": "x")"},
};

void expect_refused(ApiRig& rig, const std::string& path, const BadField& bad, const char* prompt) {
  HttpCall call;
  call.path = path;
  call.body = with_prompt(bad.json, prompt);
  const HttpAnswer answer = call_http(rig.port(), call);
  EXPECT_EQ(answer.status, 400) << call.body << " -> " << answer.body;
  if (answer.status == 400) {
    EXPECT_EQ(answer.error_param(), bad.field) << call.body << " -> " << answer.body;
    EXPECT_EQ(answer.json().at("error").at("type"), "invalid_request_error");
  }
}

TEST(Validation, NamesTheFieldAtFault) {
  ApiRig rig;
  rig.reply_with("x");
  const char* messages = R"("messages": [{"role": "user", "content": "a"}])";
  const char* prompt = R"("prompt": "a")";
  for (const BadField& bad : kBadCommon) {
    expect_refused(rig, "/v1/chat/completions", bad, messages);
    expect_refused(rig, "/v1/completions", bad, prompt);
  }
  for (const BadField& bad : kBadChat) {
    const bool own = std::string(bad.json).find("\"messages\"") != std::string::npos;
    expect_refused(rig, "/v1/chat/completions", bad, own ? "\"messages\"" : messages);
  }
  for (const BadField& bad : kBadCompletion) {
    const bool own = std::string(bad.json).find("\"prompt\"") != std::string::npos;
    expect_refused(rig, "/v1/completions", bad, own ? "\"prompt\"" : prompt);
  }
  EXPECT_TRUE(rig.service().requests().empty());
}

TEST(Validation, RefusesBodiesThatAreNoJsonObject) {
  ApiRig rig;
  const std::string deep = std::string(100000, '[');
  for (const std::string& body : {std::string(),
                                  std::string("{}"),
                                  std::string("["),
                                  std::string("[]"),
                                  std::string("null"),
                                  std::string("\"text\""),
                                  std::string("{\"prompt\": \"a\""),
                                  std::string("{'prompt': 1}"),
                                  std::string("{\"prompt\": \"\xff\"}"),
                                  std::string("{\"prompt\": \"\xc3\"}"),
                                  std::string("{\"prompt\": \"\xed\xa0\x80\"}"),
                                  std::string(R"({"prompt": "\ud800"})"),
                                  std::string(R"({"prompt": "\udc00\ud800"})"),
                                  std::string("{\"prompt\": \"a\nb\"}"),
                                  std::string("{\"prompt\": NaN}"),
                                  std::string("{\"temperature\": 1e999}"),
                                  std::string("{\"prompt\": \"a\"} x"),
                                  std::string("\0", 1),
                                  deep,
                                  "{\"a\":" + deep}) {
    for (const char* path :
         {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}) {
      HttpCall call;
      call.path = path;
      call.body = body;
      const HttpAnswer answer = call_http(rig.port(), call);
      EXPECT_EQ(answer.status, 400) << path << " " << body.substr(0, 40) << " " << answer.body;
      EXPECT_EQ(answer.json().at("error").at("type"), "invalid_request_error");
    }
  }
  EXPECT_EQ(rig.get("/health").status, 200);
}

TEST(Validation, TakesWhatClientsSendWithoutMeaningIt) {
  ApiRig rig;
  rig.reply_with("x");
  const Json body = parse_json(
      R"({"model": "tiny", "messages": [{"role": "developer", "content": "be brief"},
          {"role": "user", "content": [{"type": "text", "text": "a"}], "name": "me"},
          {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
           "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
          {"role": "tool", "tool_call_id": "1", "content": "2"}],
          "temperature": null, "stop": null, "max_tokens": null, "logit_bias": null, "seed": null,
          "n": 1, "user": "me", "response_format": {"type": "text"}, "tools": null,
          "stream": false, "stream_options": null, "presence_penalty": 0, "frequency_penalty": 0,
          "parallel_tool_calls": true, "store": false, "metadata": {}, "service_tier": "auto",
          "top_logprobs": null, "logprobs": false, "top_p": 0, "top_k": -1, "typical_p": 1,
          "guided_json": null, "bad_words": [], "length_penalty": 1.0, "unknown": 5})",
      "test");
  const HttpAnswer answer = rig.chat(body);
  EXPECT_EQ(answer.status, 200) << answer.body;
  const HttpAnswer plain = rig.completion({{"prompt", Json::array({104, 105})},
                                           {"repetition_penalty", 1.0},
                                           {"logprobs", nullptr},
                                           {"ignore_eos", true},
                                           {"stop", Json::array()},
                                           {"suffix", nullptr},
                                           {"best_of", 1}});
  EXPECT_EQ(plain.status, 200) << plain.body;
  EXPECT_EQ(rig.service().requests().back().prompt, byte_ids("hi"));
}

TEST(Validation, ShowsLongValuesCutBetweenCharacters) {
  ApiRig rig;
  std::string name = "a";
  for (int i = 0; i < 1000; ++i) {
    name += "\xC3\xA9";
  }
  for (const HttpAnswer& answer :
       {rig.completion({{"response_format", {{"type", name}}}}), rig.completion({{"n", name}}),
        rig.completion({{"logit_bias", {{name, 1}}}}), rig.completion({{"model", name}}),
        rig.chat({{"messages", {{{"role", name}, {"content", "x"}}}}})}) {
    EXPECT_GE(answer.status, 400) << answer.body;
    const std::string message = answer.json().at("error").at("message");
    EXPECT_LT(message.size(), 400U);
    EXPECT_NE(message.find("\xC3\xA9..."), std::string::npos) << message;
    EXPECT_EQ(message.find("\xEF\xBF\xBD"), std::string::npos) << message;
  }
}

TEST(Validation, PassesSamplingParametersOn) {
  ApiRig rig;
  rig.reply_with("x");
  rig.completion(parse_json(
      R"({"prompt": "p", "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1,
          "repetition_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": -0.3,
          "seed": -7, "logit_bias": {"5": -100, "6": 3}, "stop_token_ids": [65],
          "ignore_eos": true, "min_tokens": 2, "max_tokens": 9, "logprobs": 4, "priority": -3})",
      "test"));
  ASSERT_EQ(rig.service().requests().size(), 1U);
  const GenerationRequest request = rig.service().requests()[0];
  const SamplingParams& sampling = request.sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.9F);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_FLOAT_EQ(sampling.min_p, 0.1F);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.1F);
  EXPECT_FLOAT_EQ(sampling.presence_penalty, 0.2F);
  EXPECT_FLOAT_EQ(sampling.frequency_penalty, -0.3F);
  EXPECT_EQ(sampling.seed, static_cast<uint64_t>(-7));
  const std::vector<std::pair<int32_t, float>> bias = {{5, -100.0F}, {6, 3.0F}};
  EXPECT_EQ(sampling.logit_bias, bias);
  EXPECT_EQ(sampling.stop_token_ids, std::vector<int32_t>{65});
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_EQ(sampling.max_tokens, 9);
  EXPECT_EQ(sampling.num_logprobs, 4);
  EXPECT_EQ(request.priority, -3);
}

TEST(Validation, HoldsPromptsAgainstTheContext) {
  ApiRigOptions options;
  options.max_model_len = 64;
  ApiRig rig(options);
  for (const int length : {62, 63}) {
    const HttpAnswer answer =
        rig.completion({{"prompt", std::string(length, 'x')}, {"max_tokens", 1000000000}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.json().at("choices")[0].at("finish_reason"), "length");
    EXPECT_EQ(answer.json().at("usage").at("completion_tokens"), 64 - length);
  }
  for (const int length : {64, 65, 5000}) {
    const HttpAnswer answer = rig.completion({{"prompt", std::string(length, 'x')}});
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.error_code(), "context_length_exceeded");
    const std::string message = answer.json().at("error").at("message");
    EXPECT_NE(message.find("64 tokens"), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(length) + " tokens"), std::string::npos) << message;
  }
  EXPECT_EQ(rig.chat({{"messages", user_message(std::string(200, 'x'))}}).error_code(),
            "context_length_exceeded");
  const HttpAnswer chat = rig.chat({{"max_completion_tokens", 3}, {"max_tokens", 9}});
  EXPECT_EQ(chat.json().at("usage").at("completion_tokens"), 3);
  // Without a limit a chat goes on to the end of the context.
  const Json usage = rig.chat(Json::object()).json().at("usage");
  EXPECT_EQ(usage.at("total_tokens"), 64);
}

TEST(Validation, RefusalsAreQuickAndDisturbNobody) {
  ApiRig rig;
  rig.service().set_step_s(0.002);
  HttpClient stream(rig.port());
  stream.send(request_text(
      {"POST", "/v1/completions", R"({"prompt": "x", "stream": true, "max_tokens": 200})", {}}));
  ASSERT_TRUE(rig.service().await_running(1));
  for (const char* fields :
       {R"("logprobs": true, "top_logprobs": 1000000000)", R"("n": 5000000)",
        R"("logit_bias": {"99999999": 5})", R"("temperature": 999999)", R"("top_p": -1)"}) {
    const double start = now_s();
    HttpCall call;
    call.path = "/v1/chat/completions";
    call.body = with_prompt(fields, R"("messages": [{"role": "user", "content": "a"}])");
    EXPECT_EQ(call_http(rig.port(), call).status, 400);
    EXPECT_LT(now_s() - start, 1.0);
  }
  EXPECT_EQ(stream_chunks(stream.receive()).size(), 200U);
}

}  // namespace
}  // namespace plait
