// plait serve under mpirun: ranks that are killed or stopped.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json_full.h"
#include "serve/served_program.h"

namespace plait {
namespace {

// As much work as a request may ask for, so that it goes on for a while.
constexpr const char* kLongStream =
    R"({"prompt": "a", "max_tokens": 250, "ignore_eos": true, "n": 64, "stream": true})";

ServedProgram::Options two_ranks(const std::string& layout) {
  return {.more = {"--layout", layout, "--stall-limit", "3", "--failure-grace", "1"},
          .mpi_ranks = 2};
}

// The rest of a stream that has begun.
std::string read_rest(HttpClient& client) {
  std::string rest;
  for (std::string more = client.receive_some(20); !more.empty(); more = client.receive_some(20)) {
    rest += more;
    if (rest.ends_with("0\r\n\r\n")) {
      break;
    }
  }
  return rest;
}

void expect_error_event(const std::string& stream) {
  const size_t error = stream.find("data: {\"error\":");
  ASSERT_NE(error, std::string::npos)
      << stream.substr(stream.size() < 600 ? 0 : stream.size() - 600);
  EXPECT_NE(stream.find("data: [DONE]\n\n", error), std::string::npos);
}

struct Strike {
  pid_t pid = 0;
  int signal = 0;
};

// A stream runs when the signal comes, and ends with an error event.
void strike_in_stream(const ServedProgram& server, const Strike& strike) {
  HttpClient stream(server.port());
  stream.send(server.call_text(kLongStream));
  ASSERT_NE(stream.receive_some().find("200 OK"), std::string::npos);
  kill(strike.pid, strike.signal);
  expect_error_event(read_rest(stream));
}

class ServeMpiFault : public testing::TestWithParam<std::string> {};

TEST_P(ServeMpiFault, AStoppedRankMakesItUnhealthyAndEndsStreams) {
  ServedProgram server(two_ranks(GetParam()));
  const std::map<int, pid_t> pids = mpi_ranks_of(server.program().pid());
  ASSERT_EQ(pids.size(), 2U);
  const double start_s = now_s();
  strike_in_stream(server, {pids.at(1), SIGSTOP});
  EXPECT_LT(now_s() - start_s, 10);
  const HttpAnswer health = get_http(server.port(), "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_NE(health.body.find("rank 1"), std::string::npos) << health.body;
  const int status = server.program().await_end(30);
  EXPECT_GT(status, 0) << server.program().err();
  EXPECT_NE(server.program().err().find("rank 1 (host "), std::string::npos);
}

TEST_P(ServeMpiFault, AKilledRankEndsTheJob) {
  ServedProgram server(two_ranks(GetParam()));
  const std::map<int, pid_t> pids = mpi_ranks_of(server.program().pid());
  ASSERT_EQ(pids.size(), 2U);
  const double start_s = now_s();
  strike_in_stream(server, {pids.at(1), SIGKILL});
  const int status = server.program().await_end(10);
  EXPECT_GT(status, 0) << server.program().err();
  EXPECT_LT(now_s() - start_s, 10);
  EXPECT_NE(server.program().err().find("rank 1 (host "), std::string::npos)
      << server.program().err();
  EXPECT_FALSE(is_alive(pids.at(0)));
}

INSTANTIATE_TEST_SUITE_P(Layouts, ServeMpiFault, testing::Values("tp2", "dp2"),
                         [](const auto& param) { return param.param; });

TEST(ServeMpi, AStoppedRankIsNoticedWithoutRequests) {
  ServedProgram server(two_ranks("tp2"));
  const std::map<int, pid_t> pids = mpi_ranks_of(server.program().pid());
  ASSERT_EQ(pids.size(), 2U);
  EXPECT_EQ(get_http(server.port(), "/health").status, 200);
  kill(pids.at(1), SIGSTOP);
  const double seconds = server.await_health(503, 10);
  EXPECT_GE(seconds, 0) << server.program().err();
}

TEST(ServeMpi, AKilledServerEndsTheJob) {
  ServedProgram server(two_ranks("tp2"));
  const std::map<int, pid_t> pids = mpi_ranks_of(server.program().pid());
  ASSERT_EQ(pids.size(), 2U);
  kill(pids.at(0), SIGKILL);
  EXPECT_GT(server.program().await_end(10), 0) << server.program().err();
  EXPECT_NE(server.program().err().find("rank 0 (host "), std::string::npos)
      << server.program().err();
  EXPECT_FALSE(is_alive(pids.at(1)));
}

struct Golden {
  Json prompt;
  Json greedy;
};

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  for (const Json& entry : read_json("tests/data/goldens/tiny-qwen3/golden.json").at("greedy")) {
    all.push_back({entry.at("prompt"), entry.at("greedy_64")});
  }
  return all;
}

std::string token_name(int64_t id) {
  return {static_cast<char>('a' + id / 26), static_cast<char>('a' + id % 26)};
}

// The golden model with a tokenizer of as many tokens as it has rows, two letters each.
class GoldenModel : public TestFolder {
 public:
  GoldenModel() {
    const std::filesystem::path from = std::filesystem::absolute("tests/data/goldens/tiny-qwen3");
    for (const char* name : {"config.json", "model.safetensors", "generation_config.json"}) {
      std::filesystem::create_symlink(from / name, file(name));
    }
    Json vocabulary;
    for (int64_t id = 0; id < 320; ++id) {
      vocabulary[token_name(id)] = id;
    }
    const Json byte_level = {{"type", "ByteLevel"},
                             {"add_prefix_space", false},
                             {"use_regex", true},
                             {"trim_offsets", true}};
    const Json tokenizer = {{"version", "1.0"},
                            {"added_tokens", Json::array()},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", byte_level},
                            {"post_processor", nullptr},
                            {"decoder", byte_level},
                            {"model",
                             {{"type", "BPE"},
                              {"vocab", vocabulary},
                              {"merges", Json::array()},
                              {"ignore_merges", false}}}};
    std::ofstream(file("tokenizer.json")) << tokenizer.dump();
    std::ofstream(file("tokenizer_config.json")) << "{}";
  }
};

std::string text_of(const Json& ids) {
  std::string text;
  for (const Json& id : ids) {
    text += token_name(id);
  }
  return text;
}

// The choices of all prompts, asked for at the same time.
std::vector<Json> answers_of(const ServedProgram& server) {
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int round = 0; round < 2; ++round) {
    for (const Golden& golden : goldens()) {
      const Json body = {{"prompt", golden.prompt},
                         {"max_tokens", 64},
                         {"temperature", 0},
                         {"ignore_eos", true},
                         {"logprobs", 2}};
      clients.push_back(std::make_unique<HttpClient>(server.port()));
      clients.back()->send(server.call_text(body.dump()));
    }
  }
  std::vector<Json> answers;
  for (const auto& client : clients) {
    const HttpAnswer answer = client->receive(60);
    EXPECT_EQ(answer.status, 200) << answer.body;
    answers.push_back(answer.status == 200 ? answer.json().at("choices") : Json());
  }
  return answers;
}

bool await_metric(const ServedProgram& server, const std::string& name,
                  const std::function<bool(double)>& wanted) {
  const Deadline deadline = Deadline::after_s(20);
  while (!deadline.passed()) {
    if (wanted(server.metric(name))) {
      return true;
    }
  }
  return false;
}

struct Replicas {
  std::string layout;
  int ranks = 0;
  bool same_bits = false;  // as one rank
};

class ServeMpiReplicas : public testing::TestWithParam<Replicas> {};

TEST_P(ServeMpiReplicas, AnswerAsOneRankDoes) {
  const GoldenModel model;
  const ServedProgram alone(
      {.more = {"--dtype", "f32", "--kv-dtype", "f32"}, .model = model.path()});
  const std::vector<Json> expected = answers_of(alone);
  ServedProgram server({.more = {"--dtype", "f32", "--kv-dtype", "f32", "--layout",
                                 GetParam().layout, "--max-num-seqs", "2"},
                        .mpi_ranks = GetParam().ranks,
                        .model = model.path()});
  EXPECT_GE(server.metric("plait:kv_blocks_total"), 2 * alone.metric("plait:kv_blocks_total"));
  const std::vector<Json> answers = answers_of(server);
  ASSERT_EQ(answers.size(), expected.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i][0].at("text"), expected[i][0].at("text"));
    EXPECT_EQ(answers[i][0].at("logprobs").at("tokens"),
              expected[i][0].at("logprobs").at("tokens"));
    if (GetParam().same_bits) {
      EXPECT_EQ(answers[i], expected[i]);
    }
  }
  for (size_t i = 0; i < goldens().size(); ++i) {
    EXPECT_EQ(answers[i][0].at("text"), text_of(goldens()[i].greedy)) << i;
  }
}

TEST_P(ServeMpiReplicas, ShareTheWorkCancelAndEnd) {
  ServedProgram server({.more = {"--layout", GetParam().layout, "--max-num-seqs", "2"},
                        .mpi_ranks = GetParam().ranks});
  const double free = server.metric("plait:kv_blocks_free");
  EXPECT_GT(free, 0);
  HttpClient client(server.port());
  client.send(server.call_text(kLongStream));
  EXPECT_TRUE(await_metric(server, "vllm:num_requests_running",
                           [](double running) { return running > 2; }));
  client.close();
  EXPECT_TRUE(await_metric(server, "vllm:num_requests_running",
                           [](double running) { return running == 0; }));
  EXPECT_EQ(server.metric("plait:kv_blocks_free"), free);
  EXPECT_EQ(server.complete(R"({"prompt": "abc", "max_tokens": 4})").status, 200);
  kill(mpi_ranks_of(server.program().pid()).at(0), SIGTERM);
  EXPECT_EQ(server.program().await_end(20), 0) << server.program().err();
}

INSTANTIATE_TEST_SUITE_P(Layouts, ServeMpiReplicas,
                         testing::Values(Replicas{"dp2", 2, true}, Replicas{"dp2.tp2", 4, false},
                                         Replicas{"dp2.pp2", 4, true}),
                         [](const auto& param) {
                           return "np" + std::to_string(param.param.ranks) +
                                  (param.param.same_bits ? "_same_bits" : "_tp");
                         });

}  // namespace
}  // namespace plait
