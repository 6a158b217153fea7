// The built plait as a child process, and a small run for it to train.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/test_files.h"

namespace plait {

// A child process in a session of its own; killed with its group when destroyed.
class Program {
 public:
  // args[0] is looked up in PATH. Lines of both streams are kept apart.
  explicit Program(const std::vector<std::string>& args);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  // Reads what comes for at most this long.
  void read_for(double seconds);
  // Exit status, 128 + signal after one, -1 if it has not ended in time.
  int await_end(double timeout_s);
  // Waits until stderr holds `text`.
  bool await_err(const std::string& text, double timeout_s);
  const std::string& out() const { return text_[0]; }
  const std::string& err() const { return text_[1]; }

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  int fds_[2] = {-1, -1};
  std::string text_[2];
};

struct Result {
  int status = -1;
  std::string out;
  std::string err;
};
// Runs a program to its end.
Result run_program(const std::vector<std::string>& args);
// The same for plait.
Result run_plait(std::vector<std::string> args);
std::string plait_path();

int count_of(const std::string& text, const std::string& part);
bool is_alive(pid_t pid);
// Process ids of the ranks below an mpirun, by rank.
std::map<int, pid_t> mpi_ranks_of(pid_t mpirun);

// A folder with config.json (4 layers), text.bin and text.idx.
class TrainFolder : public TestFolder {
 public:
  TrainFolder();
  // "plait train" on them: 16 tokens a row, a constant learning rate, one thread a rank.
  std::vector<std::string> train(const std::vector<std::string>& more) const;
  // Names of everything below the folder, sorted.
  std::vector<std::string> listing() const;
};

// The metrics file of a run, line by line; lines that are not whole are left out.
struct MetricsLine {
  int64_t step = 0;
  double loss = 0;
};
std::vector<MetricsLine> read_metrics(const std::string& path);
// Polls until the file holds this many lines while the program runs.
bool await_metrics(Program& program, const std::string& path, size_t lines);

}  // namespace plait
