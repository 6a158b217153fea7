// Routes, keys, admission, health, drain: the API around the answers.
#include "serve/api_server.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json_full.h"
#include "serve/api_rig.h"
#include "support/test_files.h"

namespace plait {
namespace {

void expect_error(const HttpAnswer& answer, int status, const std::string& code) {
  EXPECT_EQ(answer.status, status) << answer.body;
  const Json error = answer.json().at("error");
  EXPECT_TRUE(error.at("message").is_string());
  EXPECT_TRUE(error.at("type").is_string());
  EXPECT_TRUE(error.contains("param"));
  EXPECT_EQ(answer.error_code(), code);
}

double ended(ApiRig& rig, const std::string& reason) {
  return rig.metric(
      "vllm:request_success_total{engine=\"0\",model_name=\"tiny\","
      "finished_reason=\"" +
      reason + "\"");
}

// Polls until the status is that; for what comes with the next tick.
bool await_status(ApiRig& rig, const std::string& path, int status) {
  for (int i = 0; i < 500; ++i) {
    if (rig.get(path).status == status) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(Api, ListsModels) {
  ApiRig rig;
  const Json list = rig.get("/v1/models").json();
  EXPECT_EQ(list.at("object"), "list");
  EXPECT_EQ(list.at("data").size(), 2U);
  EXPECT_EQ(list.at("data")[0].at("id"), "tiny");
  EXPECT_EQ(list.at("data")[0].at("max_model_len"), 512);
  EXPECT_EQ(rig.get("/v1/models/tiny-alias").json().at("id"), "tiny-alias");
  expect_error(rig.get("/v1/models/other"), 404, "model_not_found");
}

TEST(Api, RefusesUnknownPathsMethodsAndModels) {
  ApiRig rig;
  expect_error(rig.get("/v1/nothing"), 404, "unknown_url");
  const HttpAnswer wrong = rig.get("/v1/chat/completions");
  expect_error(wrong, 405, "method_not_allowed");
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  expect_error(post_json(rig.port(), "/v1/models", Json::object()), 405, "method_not_allowed");
  expect_error(call_http(rig.port(), {"DELETE", "/health", "", {}}), 405, "method_not_allowed");
  expect_error(rig.chat({{"model", "gpt-4"}}), 404, "model_not_found");
  expect_error(rig.completion({{"model", "gpt-4"}}), 404, "model_not_found");
  EXPECT_EQ(rig.get("/version?x=1").status, 200);
}

TEST(Api, EchoesRequestIds) {
  ApiRig rig;
  const HttpAnswer given = call_http(rig.port(), {"GET", "/health", "", {"X-Request-Id: abc-1"}});
  EXPECT_EQ(given.headers.at("x-request-id"), "abc-1");
  const std::string made = rig.get("/health").headers.at("x-request-id");
  EXPECT_EQ(made.size(), 32U);
  EXPECT_NE(rig.get("/health").headers.at("x-request-id"), made);
  EXPECT_EQ(rig.get("/none").headers.count("x-request-id"), 1U);
  EXPECT_EQ(rig.chat({{"temperature", -1}}).headers.count("x-request-id"), 1U);
  rig.reply_with("x");
  EXPECT_EQ(rig.chat({{"stream", true}}).headers.count("x-request-id"), 1U);
}

TEST(Api, WantsKeys) {
  ApiRigOptions options;
  options.api.api_keys = {"secret-1", "secret-22"};
  ApiRig rig(options);
  const HttpAnswer without = rig.get("/v1/models");
  expect_error(without, 401, "invalid_api_key");
  EXPECT_EQ(without.headers.at("www-authenticate"), "Bearer");
  const auto status_with = [&](const std::string& header) {
    return call_http(rig.port(), {"GET", "/v1/models", "", {header}}).status;
  };
  EXPECT_EQ(status_with("Authorization: Bearer secret-1"), 200);
  EXPECT_EQ(status_with("authorization: bearer secret-22"), 200);
  for (const char* wrong : {"Bearer secret-2", "Bearer secret-11", "Bearer ", "Bearer", "secret-1",
                            "Basic secret-1", "Bearer secret-1secret-1"}) {
    EXPECT_EQ(status_with(std::string("Authorization: ") + wrong), 401) << wrong;
  }
  // A body is not even read.
  HttpClient client(rig.port());
  client.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 1000\r\n\r\n");
  EXPECT_EQ(client.receive().status, 401);
  EXPECT_EQ(rig.get("/health").status, 200);
  EXPECT_EQ(rig.get("/metrics").status, 200);
  EXPECT_EQ(rig.get("/unknown").status, 401);
}

TEST(Api, ReadsKeyFiles) {
  const TestFolder folder;
  const auto write = [&](const std::string& text) {
    std::ofstream(folder.file("keys"), std::ios::binary) << text;
    return folder.file("keys");
  };
  const std::vector<std::string> keys = {"abc", "d#e"};
  EXPECT_EQ(read_api_keys(write("# the team's\n\n  abc \r\nd#e")), keys);
  EXPECT_THROW(read_api_keys(write("# none\n")), Error);
  EXPECT_THROW(read_api_keys(write("two words\n")), Error);
  EXPECT_THROW(read_api_keys(folder.file("missing")), Error);
}

TEST(Api, AllowsOriginsOnlyIfToldSo) {
  ApiRig closed;
  const HttpCall preflight = {"OPTIONS", "/v1/chat/completions", "", {"Origin: http://a"}};
  EXPECT_EQ(call_http(closed.port(), preflight).status, 405);
  const HttpCall get = {"GET", "/v1/models", "", {"Origin: http://a"}};
  EXPECT_EQ(call_http(closed.port(), get).headers.count("access-control-allow-origin"), 0U);
  ApiRigOptions options;
  options.api.cors_origins = {"http://a"};
  ApiRig open(options);
  EXPECT_EQ(call_http(open.port(), preflight).status, 204);
  EXPECT_EQ(call_http(open.port(), get).headers.at("access-control-allow-origin"), "http://a");
  const HttpCall other = {"GET", "/v1/models", "", {"Origin: http://b"}};
  EXPECT_EQ(call_http(open.port(), other).headers.count("access-control-allow-origin"), 0U);
}

TEST(Api, Says503WhileLoading) {
  ApiRigOptions options;
  options.loaded = false;
  ApiRig rig(options);
  expect_error(rig.get("/health"), 503, "loading");
  const HttpAnswer refused = rig.chat(Json::object());
  expect_error(refused, 503, "loading");
  EXPECT_EQ(refused.headers.count("retry-after"), 1U);
  EXPECT_EQ(rig.get("/version").status, 200);
  EXPECT_EQ(rig.get("/metrics").status, 200);
  rig.service().set_stats([](EngineStats& stats) { stats.ready = false; });
  rig.load();
  EXPECT_TRUE(await_status(rig, "/v1/models", 200));
  expect_error(rig.get("/health"), 503, "loading");
  rig.service().set_stats([](EngineStats& stats) { stats.ready = true; });
  EXPECT_EQ(rig.get("/health").status, 200);
  EXPECT_EQ(rig.get("/ping").status, 200);
}

TEST(Api, Says429WhenTheQueueIsFull) {
  ApiRig rig;
  rig.service().set_most_running(2);
  rig.service().set_step_s(0.005);
  HttpClient first(rig.port());
  HttpClient second(rig.port());
  const std::string call = request_text(
      {"POST", "/v1/completions", R"({"prompt": "x", "stream": true, "max_tokens": 400})", {}});
  first.send(call);
  second.send(call);
  ASSERT_TRUE(rig.service().await_running(2));
  const HttpAnswer refused = rig.chat({{"stream", true}});
  expect_error(refused, 429, "queue_full");
  EXPECT_EQ(refused.headers.at("retry-after"), "3");
  EXPECT_EQ(refused.json().at("error").at("type"), "rate_limit_error");
  EXPECT_GE(rig.metric("vllm:admission_rejections_total"), 1);
  // A choice that finds no room takes the others of its request back.
  rig.service().set_most_running(4);
  expect_error(rig.completion({{"n", 3}}), 429, "queue_full");
  EXPECT_EQ(rig.service().num_running(), 2);
  first.close();
  second.close();
  EXPECT_TRUE(rig.service().await_running(0));
  EXPECT_EQ(rig.completion({{"max_tokens", 3}}).status, 200);
}

TEST(Api, EndsStreamsWhenTheEngineHangs) {
  ApiRig rig;
  rig.service().set_step_s(0.005);
  HttpClient stream(rig.port());
  stream.send(request_text(
      {"POST", "/v1/completions", R"({"prompt": "x", "stream": true, "max_tokens": 400})", {}}));
  HttpClient plain(rig.port());
  plain.send(
      request_text({"POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 400})", {}}));
  ASSERT_TRUE(rig.service().await_running(2));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  rig.service().set_stats([](EngineStats& stats) { stats.step_age_s = 5; });
  EXPECT_EQ(rig.get("/health").status, 200) << "busy, but within the limit";
  rig.service().pause(true);
  rig.service().set_stats([](EngineStats& stats) { stats.step_age_s = 9; });
  expect_error(rig.get("/health"), 503, "unhealthy");
  const HttpAnswer streamed = stream.receive();
  EXPECT_TRUE(streamed.whole);
  const std::vector<Json> chunks = stream_chunks(streamed);
  ASSERT_GE(chunks.size(), 2U);
  EXPECT_EQ(chunks.back().at("error").at("code"), "unhealthy");
  expect_error(plain.receive(), 503, "unhealthy");
  expect_error(rig.chat(Json::object()), 503, "unhealthy");
  rig.service().set_stats([](EngineStats& stats) { stats.step_age_s = 0; });
  rig.service().pause(false);
  EXPECT_EQ(rig.get("/health").status, 200);
  rig.service().set_stats([](EngineStats& stats) { stats.failure = "rank 1 is lost"; });
  const HttpAnswer failed = rig.get("/health");
  expect_error(failed, 503, "unhealthy");
  EXPECT_NE(failed.body.find("rank 1 is lost"), std::string::npos);
}

TEST(Api, DrainsAnswersAndRefusesNewOnes) {
  ApiRig rig;
  rig.service().set_step_s(0.005);
  HttpClient stream(rig.port());
  stream.send(request_text(
      {"POST", "/v1/completions", R"({"prompt": "x", "stream": true, "max_tokens": 100})", {}}));
  ASSERT_TRUE(rig.service().await_running(1));
  rig.api().begin_drain();
  EXPECT_TRUE(await_status(rig, "/health", 503));
  const HttpAnswer refused = rig.chat(Json::object());
  expect_error(refused, 503, "draining");
  EXPECT_EQ(refused.headers.count("retry-after"), 1U);
  const std::vector<Json> chunks = stream_chunks(stream.receive());
  EXPECT_EQ(chunks.size(), 100U);
  EXPECT_EQ(chunks.back().at("choices")[0].at("finish_reason"), "length");
  for (int i = 0; i < 100 && rig.api().num_active() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(rig.api().num_active(), 0);
}

TEST(Api, EndsAnswersThatOutlastTheDrain) {
  ApiRig rig;
  rig.service().set_step_s(0.005);
  HttpClient stream(rig.port());
  stream.send(request_text(
      {"POST", "/v1/completions", R"({"prompt": "x", "stream": true, "max_tokens": 500})", {}}));
  HttpClient plain(rig.port());
  plain.send(
      request_text({"POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 500})", {}}));
  ASSERT_TRUE(rig.service().await_running(2));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  rig.api().begin_drain();
  rig.api().end_answers();
  rig.server().stop(5);
  const std::vector<Json> chunks = stream_chunks(stream.receive());
  ASSERT_GE(chunks.size(), 2U);
  EXPECT_EQ(chunks.back().at("error").at("code"), "draining");
  expect_error(plain.receive(), 503, "draining");
  EXPECT_EQ(rig.service().num_running(), 0);
  HttpClient late(rig.port());
  late.send(request_text({"GET", "/health", "", {}}));
  EXPECT_EQ(late.receive(1).status, 0) << "the port is closed";
}

TEST(Api, CancelsWhatNobodyReads) {
  ApiRig rig;
  rig.service().set_step_s(0.002);
  for (const char* body : {R"({"prompt": "x", "max_tokens": 500})",
                           R"({"prompt": "x", "max_tokens": 500, "stream": true, "n": 3})"}) {
    for (const bool reset : {false, true}) {
      const int64_t choices = std::string(body).find("\"n\"") == std::string::npos ? 1 : 3;
      const int64_t before = rig.service().num_cancelled();
      HttpClient client(rig.port());
      client.send(request_text({"POST", "/v1/completions", body, {}}));
      ASSERT_TRUE(rig.service().await_running(choices));
      const double start = now_s();
      reset ? client.reset() : client.close();
      ASSERT_TRUE(rig.service().await_running(0));
      EXPECT_LT(now_s() - start, 0.5);
      EXPECT_EQ(rig.service().num_cancelled() - before, choices);
    }
  }
  EXPECT_EQ(rig.metric("plait:kv_blocks_free"), 100);
  EXPECT_EQ(ended(rig, "abort"), 8);
}

TEST(Api, SurvivesABurstThatIsKilled) {
  ApiRig rig;
  rig.service().set_most_running(20);
  rig.service().set_step_s(0.005);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<HttpClient>(rig.port()));
    clients.back()->send(request_text(
        {"POST", "/v1/completions", R"({"prompt": "x", "stream": true, "max_tokens": 500})", {}}));
  }
  ASSERT_TRUE(rig.service().await_running(20));
  for (auto& client : clients) {
    client->reset();
  }
  ASSERT_TRUE(rig.service().await_running(0));
  EXPECT_EQ(rig.completion({{"max_tokens", 2}}).status, 200);
}

TEST(Api, ShowsMetricsUnderTheNamesThatDashboardsKnow) {
  ApiRig rig;
  rig.reply_with("hello");
  rig.service().set_stats([](EngineStats& stats) {
    stats.waiting = 3;
    stats.prefix_queries = 10;
    stats.prefix_hits = 4;
    stats.preemptions = 2;
    stats.generated_tokens = 77;
  });
  ASSERT_EQ(rig.chat(Json::object()).status, 200);
  ASSERT_EQ(rig.chat({{"temperature", 9}}).status, 400);
  const std::string labels = "{engine=\"0\",model_name=\"tiny\"}";
  const std::string text = rig.get("/metrics").body;
  for (const char* name :
       {"vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds",
        "vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds",
        "vllm:request_prefill_time_seconds", "vllm:request_decode_time_seconds"}) {
    EXPECT_NE(text.find(std::string("# TYPE ") + name + " histogram"), std::string::npos) << name;
    EXPECT_GE(rig.metric(std::string(name) + "_count"), 1) << name;
  }
  EXPECT_EQ(rig.metric("vllm:inter_token_latency_seconds_count"), 5);
  EXPECT_EQ(rig.metric("vllm:num_requests_waiting" + labels), 3);
  EXPECT_EQ(rig.metric("vllm:num_requests_running" + labels), 0);
  EXPECT_EQ(rig.metric("vllm:kv_cache_usage_perc" + labels), 0);
  EXPECT_EQ(rig.metric("vllm:prefix_cache_queries_total" + labels), 10);
  EXPECT_EQ(rig.metric("vllm:prefix_cache_hits_total" + labels), 4);
  EXPECT_EQ(rig.metric("vllm:num_preemptions_total" + labels), 2);
  EXPECT_EQ(rig.metric("vllm:generation_tokens_total" + labels), 77);
  EXPECT_EQ(ended(rig, "stop"), 1);
  EXPECT_EQ(rig.get("/metrics").headers.at("content-type").substr(0, 10), "text/plain");
}

}  // namespace
}  // namespace plait
