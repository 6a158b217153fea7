#include "cli/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_full.h"

namespace plait {
namespace {

// Machines that run many tests at once are slow; nothing here waits for it in vain.
constexpr double kPatienceS = 120;

constexpr const char* kConfig = R"({
  "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu",
  "vocab_size": 257, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 4,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
  "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}
})";

}  // namespace

Program::Program(const std::vector<std::string>& args) {
  int pipes[2][2];
  for (int stream = 0; stream < 2; ++stream) {
    EXPECT_EQ(pipe2(pipes[stream], O_CLOEXEC), 0);
    fds_[stream] = pipes[stream][0];
  }
  std::vector<char*> argv;
  for (const std::string& arg : args) {
    argv.push_back(const_cast<char*>(arg.c_str()));
  }
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    dup2(pipes[0][1], STDOUT_FILENO);
    dup2(pipes[1][1], STDERR_FILENO);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(pipes[0][1]);
  close(pipes[1][1]);
}

Program::~Program() {
  if (!ended_) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(fds_[0]);
  close(fds_[1]);
}

void Program::read_for(double seconds) {
  const Deadline deadline = Deadline::after_s(seconds);
  do {
    pollfd entries[2] = {{fds_[0], POLLIN, 0}, {fds_[1], POLLIN, 0}};
    const int left_ms = std::max(0, static_cast<int>(deadline.left_s() * 1e3));
    if (poll(entries, 2, left_ms) <= 0) {
      return;
    }
    bool any = false;
    for (int stream = 0; stream < 2; ++stream) {
      char block[4096];
      if (entries[stream].revents != 0) {
        const ssize_t got = read(fds_[stream], block, sizeof(block));
        text_[stream].append(block, static_cast<size_t>(std::max<ssize_t>(got, 0)));
        any = any || got > 0;
      }
    }
    if (!any) {  // both closed
      usleep(1000);
      return;
    }
  } while (!deadline.passed());
}

int Program::await_end(double timeout_s) {
  const Deadline deadline = Deadline::after_s(timeout_s);
  while (!deadline.passed()) {
    read_for(0.01);
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      ended_ = true;
      read_for(0.05);
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
  }
  return -1;
}

bool Program::await_err(const std::string& text, double timeout_s) {
  const Deadline deadline = Deadline::after_s(timeout_s);
  while (err().find(text) == std::string::npos && !deadline.passed()) {
    read_for(0.01);
  }
  return err().find(text) != std::string::npos;
}

Result run_program(const std::vector<std::string>& args) {
  Program program(args);
  const int status = program.await_end(kPatienceS);
  return {status, program.out(), program.err()};
}

std::string plait_path() {
  return PLAIT_PROGRAM;
}

Result run_plait(std::vector<std::string> args) {
  args.insert(args.begin(), plait_path());
  return run_program(args);
}

int count_of(const std::string& text, const std::string& part) {
  int times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++times;
  }
  return times;
}

bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t after_name = stat.rfind(')');
  // Z: not yet waited for; X: just now.
  return after_name != std::string::npos && stat[after_name + 2] != 'Z' &&
         stat[after_name + 2] != 'X';
}

std::map<int, pid_t> mpi_ranks_of(pid_t mpirun) {
  std::map<int, pid_t> pids;
  std::ifstream children("/proc/" + std::to_string(mpirun) + "/task/" + std::to_string(mpirun) +
                         "/children");
  pid_t pid = 0;
  while (children >> pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
    std::string entry;
    while (std::getline(file, entry, '\0')) {
      int rank = 0;
      if (sscanf(entry.c_str(), "OMPI_COMM_WORLD_RANK=%d", &rank) == 1) {
        pids[rank] = pid;
      }
    }
  }
  return pids;
}

TrainFolder::TrainFolder() {
  std::ofstream(file("config.json")) << kConfig;
  std::string text;
  for (int line = 0; line < 200; ++line) {
    text += "line " + std::to_string(line * line % 97) + " of a text to learn from.\n";
  }
  std::ofstream(file("text.txt")) << text;
  const Result built =
      run_plait({"data", "build", "--input", file("text.txt"), "--output", file("text")});
  EXPECT_EQ(built.status, 0) << built.err;
}

std::vector<std::string> TrainFolder::train(const std::vector<std::string>& more) const {
  std::vector<std::string> args = {
      "train",     "--model", file("config.json"), "--data",  file("text"), "--seq-len", "16",
      "--threads", "1",       "--lr-decay",        "constant"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<std::string> TrainFolder::listing() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path())) {
    names.push_back(entry.path().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<MetricsLine> read_metrics(const std::string& path) {
  std::ifstream file(path);
  std::vector<MetricsLine> lines;
  std::string line;
  while (std::getline(file, line)) {
    if (!file.eof()) {
      const Json json = parse_json(line, path);
      lines.push_back({json["step"], json["loss"]});
    }
  }
  return lines;
}

bool await_metrics(Program& program, const std::string& path, size_t lines) {
  const Deadline deadline = Deadline::after_s(kPatienceS);
  while (!deadline.passed() && is_alive(program.pid())) {
    if (read_metrics(path).size() >= lines) {
      return true;
    }
    program.read_for(0.002);
  }
  return read_metrics(path).size() >= lines;
}

}  // namespace plait
