// plait serve under mpirun: ranks that are killed or stopped.
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <string>

#include "base/clock.h"
#include "base/json_full.h"
#include "serve/served_program.h"

namespace plait {
namespace {

// As much work as a request may ask for, so that it goes on for a while.
constexpr const char* kLongStream =
    R"({"prompt": "a", "max_tokens": 250, "ignore_eos": true, "n": 64, "stream": true})";

ServedProgram::Options two_ranks(const std::string& layout) {
  return {.more = {"--layout", layout, "--stall-limit", "4", "--failure-grace", "3"},
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

class ServeMpiFault : public testing::TestWithParam<std::string> {};

TEST_P(ServeMpiFault, AStoppedRankMakesItUnhealthyAndEndsStreams) {
  ServedProgram server(two_ranks(GetParam()));
  const std::map<int, pid_t> pids = mpi_ranks_of(server.program().pid());
  ASSERT_EQ(pids.size(), 2U);
  HttpClient stream(server.port());
  stream.send(server.call_text(kLongStream));
  ASSERT_NE(stream.receive_some().find("200 OK"), std::string::npos);
  kill(pids.at(1), SIGSTOP);
  const double start_s = now_s();
  expect_error_event(read_rest(stream));
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
  HttpClient stream(server.port());
  stream.send(server.call_text(kLongStream));
  ASSERT_NE(stream.receive_some().find("200 OK"), std::string::npos);
  kill(pids.at(1), SIGKILL);
  const double start_s = now_s();
  expect_error_event(read_rest(stream));
  const int status = server.program().await_end(10);
  EXPECT_GT(status, 0) << server.program().err();
  EXPECT_LT(now_s() - start_s, 10);
  EXPECT_NE(server.program().err().find("rank 1 (host "), std::string::npos)
      << server.program().err();
  EXPECT_FALSE(is_alive(pids.at(0)));
}

INSTANTIATE_TEST_SUITE_P(Layouts, ServeMpiFault, testing::Values("tp2", "pp2"),
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

}  // namespace
}  // namespace plait
