// A blocking HTTP client on a bare socket, which can also misbehave.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace plait {

struct HttpAnswer {
  int status = 0;  // 0: the connection ended before an answer
  std::map<std::string, std::string> headers;
  std::string body;  // chunks joined
  bool whole = false;

  Json json() const;
  std::string error_code() const;  // of the error object; "" for null
  std::string error_param() const;
};

class HttpClient {
 public:
  explicit HttpClient(int port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void send(std::string_view bytes);
  // One whole answer, or what came until the connection ended or `timeout_s` passed.
  HttpAnswer receive(double timeout_s = 10);
  // Some bytes of what comes next; "" at the end.
  std::string receive_some(double timeout_s = 10);
  // True if the server ends the connection within this time; data before that is dropped.
  bool ends_within(double seconds);
  void close();
  void reset();  // closes with RST
  void set_receive_buffer(int bytes);

 private:
  bool fill(double timeout_s);

  int fd_ = -1;
  std::string buffer_;
};

struct HttpCall {
  std::string method = "POST";
  std::string path;
  std::string body;
  std::vector<std::string> headers;
};
std::string request_text(const HttpCall& call);
// One call on a connection of its own.
HttpAnswer call_http(int port, const HttpCall& call);
HttpAnswer post_json(int port, const std::string& path, const Json& body);
HttpAnswer get_http(int port, const std::string& path);

// The data of each server-sent event. Fails the test if the body has anything else.
std::vector<std::string> event_data(const std::string& body);
// Of a stream that ends with [DONE]: the events before it.
std::vector<Json> stream_chunks(const HttpAnswer& answer);

}  // namespace plait
