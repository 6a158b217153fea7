#include "doctor/run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>

// NOLINTNEXTLINE(*-redundant-declaration,*-avoid-non-const-global-variables): as POSIX says
extern char** environ;

namespace plait {
namespace {

constexpr size_t kMaxOutput = size_t{4} << 20;

// Reads until the end or the limit; true if the end came.
bool read_output(int descriptor, double limit_s, std::string& output) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  std::array<char, 65536> buffer;
  while (true) {
    const std::chrono::duration<double, std::milli> left =
        deadline - std::chrono::steady_clock::now();
    pollfd wait = {descriptor, POLLIN, 0};
    if (left.count() <= 0 || poll(&wait, 1, static_cast<int>(left.count()) + 1) <= 0) {
      return false;
    }
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count <= 0) {
      return true;
    }
    output.append(buffer.data(), std::min(static_cast<size_t>(count), kMaxOutput - output.size()));
  }
}

// `path`: a file for standard output; empty: both streams are read.
CommandResult run(const std::vector<std::string>& words, const std::string& path, double limit_s) {
  CommandResult result;
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return result;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (path.empty()) {
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  }
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t child = -1;
  result.started =
      posix_spawnp(&child, words[0].c_str(), &actions, nullptr, arguments.data(), environ) == 0;
  if (!result.started && words[0].find('/') == std::string::npos) {
    const std::string tool = "/usr/local/Ascend/driver/tools/" + words[0];
    result.started =
        posix_spawn(&child, tool.c_str(), &actions, nullptr, arguments.data(), environ) == 0;
  }
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (result.started) {
    result.timed_out = !read_output(ends[0], limit_s, result.output);
    if (result.timed_out) {
      kill(child, SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  close(ends[0]);
  return result;
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& words, double limit_s) {
  return run(words, "", limit_s);
}

CommandResult run_command_into(const std::string& path, const std::vector<std::string>& words,
                               double limit_s) {
  return run(words, path, limit_s);
}

}  // namespace plait
