// A running plait serve on a model of random weights, with the key "secret" and the name "tiny".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/program.h"
#include "serve/http_client.h"
#include "support/test_files.h"

namespace plait {

class ServedProgram {
 public:
  struct Options {
    std::vector<std::string> more = {};  // flags
    int mpi_ranks = 0;                   // 0: without mpirun
    std::string model = "tests/data/goldens/tiny-qwen3";
  };
  // Returns when it is ready; fails the test otherwise.
  explicit ServedProgram(const Options& options);
  ServedProgram() : ServedProgram(Options()) {}
  explicit ServedProgram(const std::vector<std::string>& more)
      : ServedProgram(Options{.more = more}) {}

  Program& program() { return *program_; }
  int port() const { return port_; }
  std::string url() const;
  // A POST to /v1/completions, with the key.
  std::string call_text(const std::string& body) const;
  HttpAnswer complete(const std::string& body) const;
  // Of /metrics; -1 if it is not there.
  double metric(const std::string& name) const;
  // /health, until it has this status; seconds that took, or -1 after `timeout_s`.
  double await_health(int status, double timeout_s) const;

 private:
  TestFolder folder_;
  std::unique_ptr<Program> program_;
  int port_ = 0;
};

}  // namespace plait
