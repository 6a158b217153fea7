#include "serve/served_program.h"

#include <unistd.h>

#include <fstream>

#include <fmt/format.h>

#include "base/clock.h"

namespace plait {
namespace {

constexpr const char* kTemplate =
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

}  // namespace

ServedProgram::ServedProgram(const Options& options) {
  std::ofstream(folder_.file("chat.jinja")) << kTemplate;
  std::ofstream(folder_.file("keys")) << "secret\n";
  std::vector<std::string> args;
  if (options.mpi_ranks > 0) {
    args = {"mpirun",          "-n",        std::to_string(options.mpi_ranks),
            "--oversubscribe", "--bind-to", "none"};
  }
  for (const std::string& arg : std::vector<std::string>{
           plait_path(), "serve", "--model", options.model, "--served-model-name", "tiny", "--port",
           "0", "--kv-cache-gib", "0.01", "--threads", "1", "--api-key-file", folder_.file("keys"),
           "--chat-template", folder_.file("chat.jinja")}) {
    args.push_back(arg);
  }
  args.insert(args.end(), options.more.begin(), options.more.end());
  program_ = std::make_unique<Program>(args);
  if (program_->await_err("ready on ", 60)) {
    program_->read_for(0.05);
    const std::string& log = program_->err();
    const size_t end = log.find('\n', log.find("ready on "));
    port_ = std::stoi(log.substr(log.rfind(':', end) + 1));
  } else {
    ADD_FAILURE() << program_->err();
  }
}

std::string ServedProgram::url() const {
  return fmt::format("http://127.0.0.1:{}", port_);
}

std::string ServedProgram::call_text(const std::string& body) const {
  return request_text({"POST", "/v1/completions", body, {"Authorization: Bearer secret"}});
}

HttpAnswer ServedProgram::complete(const std::string& body) const {
  HttpClient client(port_);
  client.send(call_text(body));
  return client.receive(60);
}

double ServedProgram::metric(const std::string& name) const {
  const std::string text = "\n" + get_http(port_, "/metrics").body;
  const size_t at = text.find("\n" + name + "{");
  if (at == std::string::npos) {
    return -1;
  }
  const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  return std::stod(line.substr(line.rfind(' ') + 1));
}

double ServedProgram::await_health(int status, double timeout_s) const {
  const Deadline deadline = Deadline::after_s(timeout_s);
  while (!deadline.passed()) {
    if (get_http(port_, "/health").status == status) {
      return deadline.elapsed_s();
    }
    usleep(20000);
  }
  return -1;
}

}  // namespace plait
