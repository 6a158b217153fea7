// plait serve as a process, on a model of random weights.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_full.h"
#include "serve/served_program.h"
#include "support/test_files.h"

namespace plait {
namespace {

TEST(ServeProgram, AnswersAndEndsWithZeroOnSigterm) {
  ServedProgram server;
  EXPECT_EQ(get_http(server.port(), "/health").status, 200);
  EXPECT_EQ(get_http(server.port(), "/v1/models").status, 401);
  const HttpAnswer whole =
      server.complete(R"({"prompt": "xyz", "max_tokens": 20, "temperature": 0})");
  ASSERT_EQ(whole.status, 200) << whole.body;
  const std::string text = whole.json().at("choices")[0].at("text");
  std::string joined;
  for (const Json& chunk : stream_chunks(server.complete(
           R"({"prompt": "xyz", "max_tokens": 20, "temperature": 0, "stream": true})"))) {
    joined += chunk.at("choices")[0].at("text").get<std::string>();
  }
  EXPECT_EQ(joined, text);

  // A stream that runs when the signal comes ends whole.
  HttpClient stream(server.port());
  stream.send(server.call_text(
      R"({"prompt": "xyz", "max_tokens": 240, "ignore_eos": true, "stream": true})"));
  const std::string first = stream.receive_some();
  ASSERT_NE(first.find("200 OK"), std::string::npos) << first;
  kill(server.program().pid(), SIGTERM);
  std::string rest = first;
  for (std::string more = stream.receive_some(); !more.empty(); more = stream.receive_some()) {
    rest += more;
  }
  EXPECT_NE(rest.find("data: [DONE]\n\n"), std::string::npos);
  EXPECT_NE(rest.find("\"finish_reason\":\"length\""), std::string::npos);
  EXPECT_EQ(server.program().await_end(20), 0) << server.program().err();
  // Letters that no hexadecimal request id holds.
  EXPECT_EQ(server.program().err().find("xyz"), std::string::npos) << "prompts are not logged";
  EXPECT_EQ(server.program().err().find("secret"), std::string::npos);
}

TEST(ServeProgram, ASecondSignalEndsItAtOnce) {
  ServedProgram server({"--drain-timeout", "60", "--max-model-len", "256"});
  // Answers that outlast the first signal: a client that holds many of them.
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server.port()));
    clients.back()->send(
        server.call_text(R"({"prompt": "a", "max_tokens": 250, "ignore_eos": true, "n": 16})"));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(server.program().pid(), SIGTERM);
  ASSERT_TRUE(server.program().await_err("shutting down", 10));
  kill(server.program().pid(), SIGTERM);
  EXPECT_EQ(server.program().await_end(5), 128 + SIGTERM) << server.program().err();
}

TEST(ServeProgram, EndsWithTwoIfItCannotServe) {
  ServedProgram first;
  const std::string model = "tests/data/goldens/tiny-qwen3";
  const Result in_use = run_plait({"serve", "--model", model, "--kv-cache-gib", "0.01", "--port",
                                   std::to_string(first.port())});
  EXPECT_EQ(in_use.status, 2);
  EXPECT_NE(in_use.err.find("in use"), std::string::npos) << in_use.err;
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"serve", "--model", "/no/such/model"},
           {"serve", "--model", model, "--max-model-len", "100000"},
           {"serve", "--model", model, "--layout", "tp3"},
           {"serve", "--model", model, "--api-key-file", "/no/such/file"},
           {"serve", "--model", model, "--tls-cert", "x"},
           {"serve", "--model", model, "--host", "300.1.1.1"},
           {"serve", "--model", model, "--max-model-len", "1"},
           {"serve", "--model", model, "--port", "99999"},
           {"serve", "--model", model, "--threads", "-1"},
           {"serve", "--model", model, "--threads", "100000"},
           {"serve", "--model", model, "--stall-limit", "0"},
           {"serve", "--model", model, "--target-ttft-ms", "nan"},
           {"serve", "--model", model, "--max-body-mib", "-1"},
           {"serve", "--model", model, "--max-connections", "0"},
           {"serve", "--model", model, "--idle-timeout", "nan"},
           {"serve", "--model", model, "--drain-timeout", "-1"},
           {"serve", "--model", model, "--kv-cache-gib", "inf"},
           {"serve", "--model", model, "--served-model-name", ""},
           {"serve", "--model", model, "--reasoning-parser", "tea-leaves"}}) {
    const Result result = run_plait(args);
    EXPECT_EQ(result.status, 2) << args.back() << ": " << result.err;
    EXPECT_EQ(count_of(result.err, "plait: "), 1) << result.err;
  }
}

// Defaults that every request would be refused for.
TEST(ServeProgram, RefusesAGenerationConfigOutOfRange) {
  const TestFolder folder;
  const std::filesystem::path from = std::filesystem::absolute("tests/data/goldens/tiny-qwen3");
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::create_symlink(from / name, folder.file(name));
  }
  std::ofstream(folder.file("generation_config.json")) << R"({"temperature": 9})";
  const Result result = run_plait({"serve", "--model", folder.path(), "--dry-run"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("temperature is 9"), std::string::npos) << result.err;
  EXPECT_EQ(
      run_plait({"serve", "--model", folder.path(), "--dry-run", "--generation-config", "none"})
          .status,
      0);
}

TEST(ServeProgram, PrintsWhatItWouldDo) {
  const Result result = run_plait(
      {"serve", "--model", "tests/data/goldens/tiny-qwen3", "--kv-cache-gib", "0.01", "--dry-run"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("tiny-qwen3"), std::string::npos);
  EXPECT_NE(result.out.find("context 256 tokens"), std::string::npos) << result.out;
}

TEST(ServeProgram, MeasuresQueuesAndRefusals) {
  const ServedProgram server({"--max-num-seqs", "1", "--max-num-queued-reqs", "1"});
  const std::string call =
      server.call_text(R"({"prompt": "a", "max_tokens": 250, "ignore_eos": true})");
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server.port()));
    clients.back()->send(call);
  }
  double answered = 0;
  double refused = 0;
  for (const auto& client : clients) {
    const HttpAnswer answer = client->receive(60);
    EXPECT_TRUE(answer.status == 200 || answer.status == 429) << answer.body;
    answered += answer.status == 200 ? 1 : 0;
    refused += answer.status == 429 ? 1 : 0;
    EXPECT_EQ(answer.headers.count("retry-after"), answer.status == 429 ? 1U : 0U);
  }
  EXPECT_GE(answered, 1);
  EXPECT_GE(refused, 1);
  EXPECT_EQ(server.metric("vllm:admission_rejections_total"), refused);
  EXPECT_EQ(server.metric("vllm:request_queue_time_seconds_count"), answered);
  EXPECT_GT(server.metric("vllm:request_queue_time_seconds_sum"), 0);
  EXPECT_EQ(server.metric("vllm:time_to_first_token_seconds_count"), answered);
  EXPECT_EQ(server.metric("vllm:request_prefill_time_seconds_count"), answered);
  EXPECT_EQ(server.metric("vllm:request_decode_time_seconds_count"), answered);
  EXPECT_EQ(server.metric("plait:admission_limit"), 1);
}

TEST(ServeProgram, ALatencyTargetShowsItsState) {
  const ServedProgram server({"--target-tpot-ms", "100", "--max-num-seqs", "8"});
  EXPECT_EQ(server.metric("plait:admission_limit"), 2) << "it starts low";
}

// The short form of the soak; the long one: tools/serve_soak.py --requests 2000.
TEST(ServeProgram, RandomRequestsAndCancelsLeaveNothingBehind) {
  if (std::system("python3 --version > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "no python3";
  }
  const Result result =
      run_program({"python3", "tools/serve_soak.py", "--plait", plait_path(), "--model",
                   "tests/data/goldens/tiny-qwen3", "--requests", "150", "--growth-mib", "64", "--",
                   "--kv-cache-gib", "0.0005", "--threads", "1", "--layout", "tp2"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
}

// PLAIT_OPENAI_PYTHON: an interpreter that has the openai package; else python3 is asked.
TEST(ServeProgram, SatisfiesTheOfficialClient) {
  const char* given = std::getenv("PLAIT_OPENAI_PYTHON");
  const std::string python = given == nullptr ? "python3" : given;
  if (std::system((python + " -c 'import openai' > /dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << "no openai package for " << python;
  }
  ServedProgram server;
  const Result result = run_program({python, PLAIT_OPENAI_CLIENT, server.url()});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("passed"), std::string::npos) << result.out;
}

TEST(ServeProgram, SpeaksWithCurlOverTls) {
  if (std::system("openssl version > /dev/null 2>&1 && curl --version > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "no openssl or curl";
  }
  const TestFolder folder;
  const std::string make =
      "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext "
      "subjectAltName=IP:127.0.0.1 -keyout " +
      folder.file("key.pem") + " -out " + folder.file("cert.pem") + " > /dev/null 2>&1";
  ASSERT_EQ(std::system(make.c_str()), 0);
  ServedProgram server(
      {"--tls-cert", folder.file("cert.pem"), "--tls-key", folder.file("key.pem")});
  const std::string url = fmt::format("https://127.0.0.1:{}/v1/completions", server.port());
  const Result result =
      run_program({"curl", "-sS", "--max-time", "20", "--cacert", folder.file("cert.pem"), "-H",
                   "Authorization: Bearer secret", "-d",
                   R"({"prompt": "a", "stream": true, "max_tokens": 5})", url});
  EXPECT_EQ(result.status, 0) << result.err;
  HttpAnswer answer;
  answer.body = result.out;
  EXPECT_EQ(stream_chunks(answer).size(), 5U);
}

}  // namespace
}  // namespace plait
