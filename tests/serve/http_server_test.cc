// The HTTP layer under clients that misbehave.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/json_full.h"
#include "serve/api_rig.h"

namespace plait {
namespace {

ApiRigOptions with_limits(const HttpLimits& limits) {
  ApiRigOptions options;
  options.limits = limits;
  return options;
}

TEST(HttpServer, AnswersOneRequestAfterAnotherOnOneConnection) {
  ApiRig rig;
  rig.reply_with("ok");
  HttpClient client(rig.port());
  for (int i = 0; i < 3; ++i) {
    client.send(request_text({"GET", "/version", "", {}}));
    const HttpAnswer answer = client.receive();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.json().at("version"), "1.2.3");
    EXPECT_EQ(answer.headers.at("connection"), "keep-alive");
  }
  client.send(request_text({"POST", "/v1/completions", R"({"prompt": "x"})", {}}));
  EXPECT_EQ(client.receive().json().at("choices")[0].at("text"), "ok");
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  ApiRig rig;
  rig.reply_with("one answer");
  const std::string stream =
      request_text({"POST", "/v1/completions", R"({"prompt": "x", "stream": true})", {}});
  HttpClient client(rig.port());
  client.send(stream + request_text({"GET", "/version", "", {}}) + stream +
              request_text({"GET", "/nowhere", "", {}}));
  EXPECT_EQ(stream_chunks(client.receive()).size(), 11U);  // ten bytes and the end
  EXPECT_EQ(client.receive().json().at("version"), "1.2.3");
  EXPECT_EQ(stream_chunks(client.receive()).size(), 11U);
  EXPECT_EQ(client.receive().status, 404);
}

TEST(HttpServer, TakesWholeAddressesAsProxiesSendThem) {
  ApiRig rig;
  HttpClient client(rig.port());
  const auto status = [&](const std::string& target) {
    client.send(request_text({"GET", target, "", {}}));
    return client.receive().status;
  };
  EXPECT_EQ(status("http://plait.example/version"), 200);
  EXPECT_EQ(status("HTTPS://plait.example:8000/version?x=http://y"), 200);
  EXPECT_EQ(status("/version?a=/b"), 200);
  EXPECT_EQ(status("http://plait.example"), 404);
  EXPECT_EQ(status("http://plait.example/versions"), 404);
  EXPECT_EQ(status("/http://plait.example/version"), 404);
}

TEST(HttpServer, TakesRequestsByteByByte) {
  ApiRig rig;
  rig.reply_with("ok");
  HttpClient client(rig.port());
  for (const char byte : request_text({"POST", "/v1/completions", R"({"prompt": "x"})", {}})) {
    client.send(std::string_view(&byte, 1));
  }
  EXPECT_EQ(client.receive().status, 200);
}

TEST(HttpServer, TakesChunkedBodiesAndExpect) {
  ApiRig rig;
  rig.reply_with("ok");
  HttpClient client(rig.port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\n{\"pro\r\nc\r\nmpt\": \"abc\"}\r\n0\r\n\r\n");
  EXPECT_EQ(client.receive().status, 200);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
      "Content-Length: 15\r\n\r\n");
  EXPECT_EQ(client.receive_some().substr(0, 12), "HTTP/1.1 100");
  client.send(R"({"prompt": "x"})");
  EXPECT_EQ(client.receive().status, 200);
}

TEST(HttpServer, AnswersHttp10StreamsUntilTheConnectionEnds) {
  ApiRig rig;
  rig.reply_with("ok");
  HttpClient client(rig.port());
  const std::string body = R"({"prompt": "x", "stream": true})";
  client.send(fmt::format("POST /v1/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}",
                          body.size(), body));
  const HttpAnswer answer = client.receive();
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(stream_chunks(answer).size(), 3U);
}

TEST(HttpServer, RefusesWhatIsNoHttp) {
  ApiRig rig;
  for (const char* bytes : {"hello\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n", "GET / HTTP/3.0\r\n\r\n",
                            "GET /version HTTP/1.1\r\nno colon here\r\n\r\n",
                            "POST /tokenize HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                            // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one text
                            "POST /tokenize HTTP/1.1\r\nContent-Length: 3\r\n"
                            "Transfer-Encoding: chunked\r\n\r\n"}) {
    HttpClient client(rig.port());
    client.send(bytes);
    const HttpAnswer answer = client.receive();
    EXPECT_TRUE(answer.status == 400 || answer.status == 505) << bytes << answer.status;
    EXPECT_EQ(answer.json().at("error").at("type"), "invalid_request_error");
    client.close();
  }
  EXPECT_EQ(rig.get("/health").status, 200);
}

TEST(HttpServer, BoundsHeadersAndBodies) {
  HttpLimits limits;
  limits.header_bytes = 2000;
  limits.body_bytes = 5000;
  limits.linger_s = 0.5;
  ApiRig rig(with_limits(limits));
  HttpClient many(rig.port());
  many.send("GET /version HTTP/1.1\r\nHost: a\r\nX-Long: " + std::string(3000, 'x') + "\r\n\r\n");
  EXPECT_EQ(many.receive().status, 431);

  HttpClient announced(rig.port());
  announced.send("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
  EXPECT_EQ(announced.receive().status, 413);

  // Sends all of it, and still reads the answer.
  HttpCall call;
  call.path = "/v1/completions";
  call.body = std::string(200000, ' ');
  EXPECT_EQ(call_http(rig.port(), call).status, 413);

  HttpClient chunked(rig.port());
  chunked.send("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1fff\r\n" +
               std::string(0x1fff, ' ') + "\r\n");
  EXPECT_EQ(chunked.receive().status, 413);
  EXPECT_EQ(rig.get("/health").status, 200);
}

TEST(HttpServer, EndsSlowRequestsAndIdleConnections) {
  HttpLimits limits;
  limits.request_s = 0.3;
  limits.idle_s = 0.6;
  ApiRig rig(with_limits(limits));
  HttpClient half(rig.port());
  half.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 50\r\n\r\n{\"prom");
  HttpClient head(rig.port());
  head.send("GET /ver");
  HttpClient idle(rig.port());
  EXPECT_EQ(half.receive(5).status, 408);
  EXPECT_EQ(head.receive(5).status, 408);
  EXPECT_TRUE(idle.ends_within(5));
  EXPECT_EQ(rig.get("/health").status, 200);
}

TEST(HttpServer, LetsGoOfClientsThatDoNotRead) {
  HttpLimits limits;
  limits.write_queue_bytes = 20000;
  ApiRigOptions options = with_limits(limits);
  options.max_model_len = 1000000;
  ApiRig rig(options);
  rig.service().set_step_s(1e-5);
  HttpClient client(rig.port());
  client.set_receive_buffer(4096);
  client.send(request_text(
      {"POST", "/v1/completions", R"({"prompt": "x", "stream": true, "max_tokens": 900000})", {}}));
  EXPECT_TRUE(rig.service().await_running(1));
  EXPECT_TRUE(rig.service().await_running(0));
  EXPECT_EQ(rig.service().num_cancelled(), 1);
}

TEST(HttpServer, LimitsConnections) {
  HttpLimits limits;
  limits.connections = 3;
  ApiRig rig(with_limits(limits));
  std::vector<std::unique_ptr<HttpClient>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(std::make_unique<HttpClient>(rig.port()));
    open.back()->send(request_text({"GET", "/version", "", {}}));
    EXPECT_EQ(open.back()->receive().status, 200);
  }
  const HttpAnswer refused = rig.get("/version");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.count("retry-after"), 1U);
  open.clear();
  int status = 0;
  for (int i = 0; i < 50 && status != 200; ++i) {
    status = rig.get("/version").status;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(status, 200);
}

TEST(HttpServer, LimitsUnfinishedBodiesTogether) {
  HttpLimits limits;
  limits.all_bodies_bytes = 100000;
  ApiRig rig(with_limits(limits));
  std::vector<std::unique_ptr<HttpClient>> open;
  int refused = 0;
  for (int i = 0; i < 4; ++i) {
    open.push_back(std::make_unique<HttpClient>(rig.port()));
    open.back()->send("POST /tokenize HTTP/1.1\r\nContent-Length: 90000\r\n\r\n" +
                      std::string(40000, ' '));
    refused += open.back()->receive(0.3).status == 503 ? 1 : 0;
  }
  EXPECT_EQ(refused, 2);
  open.clear();
}

TEST(HttpServer, SaysThatAPortIsInUse) {
  ApiRig rig;
  HttpServerOptions options;
  options.port = rig.port();
  try {
    HttpServer second(options, rig.api());
    FAIL() << "bound twice";
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.code()), 2);
    EXPECT_NE(error.message().find("in use"), std::string::npos) << error.message();
  }
  options.host = "no.such.host.invalid";
  EXPECT_THROW(HttpServer(options, rig.api()), Error);
}

}  // namespace
}  // namespace plait
