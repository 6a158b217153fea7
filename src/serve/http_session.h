// One client connection: reads requests one after another, hands them to the handler, writes the
// answers, and notices a client that has gone while its answer is being made.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http_parser.h"
#include "serve/http_stream.h"
#include "serve/http_types.h"

namespace plait {

// Shared by the sessions of a server; I/O thread only.
struct HttpSessionContext {
  HttpLimits limits;
  HttpHandler* handler = nullptr;
  int64_t bodies_bytes = 0;  // received parts of requests that are not complete
  bool closing = false;      // no further request on a connection
};

class HttpSession final : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(std::unique_ptr<HttpStream> stream, HttpSessionContext& context);
  void start();
  // Answers 503 without reading anything.
  void start_refused();
  void check_deadlines(double now);
  void close_if_idle();
  void close();
  bool closed() const { return closed_; }

 private:
  friend class HttpExchange;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // After the handshake: `then`, then the first read.
  void begin(std::function<void()> then);
  void read_more();
  void on_read(bool failed, int64_t bytes);
  void parse();
  bool parse_step();
  void dispatch();
  void refuse(int status, const std::string& message);
  void send_response(const HttpResponse& response);
  void start_stream(const HttpResponse& head);
  void write_chunk(std::string_view bytes);
  void finish_answer();
  std::string head_text(const HttpResponse& response) const;
  void queue(std::string_view bytes);
  void write_more();
  void on_written(bool failed, int64_t bytes);
  void after_answer();
  void linger();
  void set_body_bytes(int64_t bytes);

  std::unique_ptr<HttpStream> stream_;
  HttpSessionContext* context_;
  std::unique_ptr<HttpRequestParser> parser_;
  std::string input_;  // not parsed yet
  std::string read_buffer_;
  bool reading_ = false;

  bool request_started_ = false;
  bool answering_ = false;  // from dispatch to the last byte queued
  uint64_t exchange_ = 0;   // of the answer being made
  bool is_head_ = false;    // method HEAD
  bool chunked_ = false;
  bool streaming_ = false;
  bool keep_alive_ = false;
  bool in_parse_ = false;
  bool lingering_ = false;
  bool closed_ = false;
  std::function<void()> gone_;

  std::string out_;  // queued behind active_
  std::string active_;
  int64_t active_done_ = 0;
  bool writing_ = false;

  int64_t body_bytes_ = 0;
  double read_deadline_ = kNever;
  double write_deadline_ = kNever;
};

}  // namespace plait
