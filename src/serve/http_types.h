// HTTP as the API sees it: no sockets and no third-party headers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plait {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   // "GET", as sent
  std::string path;     // without the query
  HttpHeaders headers;  // names in lower case
  std::string body;

  // The first value of a header (name in lower case), or nullptr.
  const std::string* header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  HttpHeaders headers;  // beside content-type, content-length and connection
};

// "Not Found" for 404.
const char* http_reason(int status);

// The answer to one request: respond() once, or start_stream(), write() ... and finish(). To be
// used on the I/O thread only. After the client has gone every call does nothing.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  virtual void respond(HttpResponse response) = 0;
  // Sends the head; its body is ignored.
  virtual void start_stream(const HttpResponse& head) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void finish() = 0;
  // The client has gone, was too slow, or the answer is complete.
  virtual bool closed() const = 0;
  // `gone` runs on the I/O thread, at most once, if the client goes before the answer is complete.
  virtual void on_gone(std::function<void()> gone) = 0;
};

// What the server calls, always on its I/O thread. Must not block and must not throw.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // The header is complete, the body is not: a response refuses the request, and its body is not
  // read.
  virtual std::optional<HttpResponse> check_head(const HttpRequest& request) = 0;
  virtual void handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) = 0;
  // The answer to bytes that are no acceptable request (400, 408, 413, 431, 503 ...).
  virtual HttpResponse refusal(int status, const std::string& message) = 0;
  // Several times a second.
  virtual void tick() = 0;
};

struct HttpLimits {
  int64_t header_bytes = 16 << 10;
  int64_t body_bytes = 16 << 20;
  int64_t all_bodies_bytes = 256 << 20;  // of all connections together
  int64_t write_queue_bytes = 1 << 20;   // of a stream whose client does not read
  int64_t read_ahead_bytes = 64 << 10;   // pipelined requests, while one is answered
  int64_t connections = 4096;
  double request_s = 60;  // from the first byte of a request to its last
  double idle_s = 75;     // between requests
  double write_s = 30;    // without a byte that the client took
  double linger_s = 3;    // for a refused client to read the answer
};

}  // namespace plait
