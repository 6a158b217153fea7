// An HTTP/1.1 server with one I/O thread: thousands of connections, none of which can hold up
// another. Every wait has a limit and every buffer a bound (HttpLimits).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/http_types.h"

namespace plait {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: any free one
  HttpLimits limits;
  std::string tls_certificate;  // PEM files; empty: plain HTTP
  std::string tls_key;
};

class HttpServer {
 public:
  // Listens at once; nothing is answered before start(). `handler` must outlive the server.
  // Errors: kInvalidArgument if the address cannot be bound (port in use, bad host) or TLS files
  // cannot be used.
  HttpServer(const HttpServerOptions& options, HttpHandler& handler);
  ~HttpServer();  // stop(0)
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  void start();
  // Runs `work` on the I/O thread, after what was posted before. Any thread, also after stop(),
  // when it does nothing.
  void post(std::function<void()> work);
  // Accepts no more, lets answers that are complete reach their clients for at most `flush_s`, then
  // closes all and joins the I/O thread. Any thread but that one.
  void stop(double flush_s);
  int64_t num_connections() const;  // any thread

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plait
