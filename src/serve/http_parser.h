// One HTTP/1 request from bytes (RFC 9112), with limits on its parts.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "serve/http_types.h"

namespace plait {

class HttpRequestParser {
 public:
  enum class State {
    kHead,      // the header is not complete
    kHeadDone,  // request() has all but the body; put() goes on with that
    kBody,
    kDone,
    kFailed,  // see status() and message()
  };
  explicit HttpRequestParser(const HttpLimits& limits);
  ~HttpRequestParser();
  HttpRequestParser(const HttpRequestParser&) = delete;
  HttpRequestParser& operator=(const HttpRequestParser&) = delete;

  // Returns how many bytes were used; stops at kHeadDone, kDone and kFailed. What was not used has
  // to be given again, followed by more.
  int64_t put(std::string_view bytes);
  State state() const { return state_; }
  HttpRequest& request() { return request_; }  // complete at kDone
  int status() const { return status_; }
  const std::string& message() const { return message_; }
  bool keep_alive() const { return keep_alive_; }
  bool is_http_1_0() const { return http_1_0_; }
  bool expects_continue() const { return expects_continue_; }

 private:
  struct Impl;
  void take_head();
  void fail(int status, std::string message);

  std::unique_ptr<Impl> impl_;
  HttpLimits limits_;
  State state_ = State::kHead;
  HttpRequest request_;
  int status_ = 0;
  std::string message_;
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  bool expects_continue_ = false;
};

}  // namespace plait
