#include "serve/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_full.h"
#include "base/text.h"

namespace plait {

Json HttpAnswer::json() const {
  return parse_json(body, "answer");
}

std::string HttpAnswer::error_code() const {
  const Json error = json().at("error");
  return error.at("code").is_null() ? "" : error.at("code").get<std::string>();
}

std::string HttpAnswer::error_param() const {
  const Json error = json().at("error");
  return error.at("param").is_null() ? "" : error.at("param").get<std::string>();
}

HttpClient::HttpClient(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close();
  }
}

HttpClient::~HttpClient() {
  close();
}

void HttpClient::close() {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

void HttpClient::reset() {
  const linger at_once = {1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

void HttpClient::set_receive_buffer(int bytes) {
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

void HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return;  // the server ended the connection: the answer tells
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

bool HttpClient::fill(double timeout_s) {
  pollfd ready = {fd_, POLLIN, 0};
  if (fd_ < 0 || timeout_s <= 0 || poll(&ready, 1, static_cast<int>(timeout_s * 1e3) + 1) <= 0) {
    return false;
  }
  char bytes[16384];
  const ssize_t count = recv(fd_, bytes, sizeof bytes, 0);
  if (count <= 0) {
    return false;
  }
  buffer_.append(bytes, static_cast<size_t>(count));
  return true;
}

std::string HttpClient::receive_some(double timeout_s) {
  if (buffer_.empty()) {
    fill(timeout_s);
  }
  return std::exchange(buffer_, "");
}

bool HttpClient::ends_within(double seconds) {
  const Deadline deadline = Deadline::after_s(seconds);
  while (fill(deadline.left_s())) {
    buffer_.clear();
  }
  return !deadline.passed();
}

namespace {

// Takes the chunks that are whole; true at the last one.
bool take_chunks(std::string& buffer, std::string& body) {
  for (;;) {
    const size_t line = buffer.find("\r\n");
    if (line == std::string::npos) {
      return false;
    }
    const size_t size = std::stoul(buffer.substr(0, line), nullptr, 16);
    if (buffer.size() < line + 2 + size + 2) {
      return false;
    }
    body += buffer.substr(line + 2, size);
    buffer.erase(0, line + 2 + size + 2);
    if (size == 0) {
      return true;
    }
  }
}

void parse_head(const std::string& head, HttpAnswer& answer) {
  answer.status = std::stoi(head.substr(head.find(' ') + 1, 3));
  size_t begin = head.find("\r\n") + 2;
  while (begin < head.size()) {
    const size_t end = head.find("\r\n", begin);
    const size_t colon = head.find(": ", begin);
    answer.headers[lower(head.substr(begin, colon - begin))] =
        head.substr(colon + 2, end - colon - 2);
    begin = end + 2;
  }
}

}  // namespace

HttpAnswer HttpClient::receive(double timeout_s) {
  HttpAnswer answer;
  const Deadline deadline = Deadline::after_s(timeout_s);
  size_t head = std::string::npos;
  do {
    while ((head = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill(deadline.left_s())) {
        return answer;
      }
    }
    answer = HttpAnswer{};
    parse_head(buffer_.substr(0, head + 2), answer);
    buffer_.erase(0, head + 4);
  } while (answer.status == 100);
  if (answer.status == 204) {
    answer.whole = true;
    return answer;
  }
  if (answer.headers.count("transfer-encoding") != 0) {
    while (!(answer.whole = take_chunks(buffer_, answer.body)) && fill(deadline.left_s())) {
    }
    return answer;
  }
  if (answer.headers.count("content-length") == 0) {
    while (fill(deadline.left_s())) {
    }
    answer.body = std::exchange(buffer_, "");
    answer.whole = !deadline.passed();
    return answer;
  }
  const size_t length = std::stoul(answer.headers["content-length"]);
  while (buffer_.size() < length && fill(deadline.left_s())) {
  }
  answer.whole = buffer_.size() >= length;
  answer.body = buffer_.substr(0, length);
  buffer_.erase(0, answer.body.size());
  return answer;
}

std::string request_text(const HttpCall& call) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: test\r\n", call.method, call.path);
  for (const std::string& header : call.headers) {
    text += header + "\r\n";
  }
  if (call.method == "POST") {
    text +=
        fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", call.body.size());
  }
  return text + "\r\n" + call.body;
}

HttpAnswer call_http(int port, const HttpCall& call) {
  HttpClient client(port);
  client.send(request_text(call));
  return client.receive(20);
}

HttpAnswer post_json(int port, const std::string& path, const Json& body) {
  HttpCall call;
  call.path = path;
  call.body = dump_json(body);
  return call_http(port, call);
}

HttpAnswer get_http(int port, const std::string& path) {
  HttpCall call;
  call.method = "GET";
  call.path = path;
  return call_http(port, call);
}

std::vector<std::string> event_data(const std::string& body) {
  std::vector<std::string> events;
  size_t begin = 0;
  while (begin < body.size()) {
    const size_t end = body.find("\n\n", begin);
    if (end == std::string::npos || body.compare(begin, 6, "data: ") != 0) {
      ADD_FAILURE() << "not an event: " << body.substr(begin, 80);
      break;
    }
    events.push_back(body.substr(begin + 6, end - begin - 6));
    begin = end + 2;
  }
  return events;
}

std::vector<Json> stream_chunks(const HttpAnswer& answer) {
  std::vector<Json> chunks;
  std::vector<std::string> events = event_data(answer.body);
  if (events.empty() || events.back() != "[DONE]") {
    ADD_FAILURE() << "the stream does not end with [DONE]: " << answer.status << " "
                  << answer.body.substr(0, 300);
    return chunks;
  }
  events.pop_back();
  for (const std::string& event : events) {
    chunks.push_back(parse_json(event, "event"));
  }
  return chunks;
}

}  // namespace plait
