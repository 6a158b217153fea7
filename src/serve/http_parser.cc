#include "serve/http_parser.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/text.h"

namespace plait {

namespace http = boost::beast::http;

namespace {

// Without the query; of a whole address, as proxies send it (RFC 9112, 3.2.2), what follows the
// host.
std::string path_of(std::string target) {
  target.resize(std::min(target.size(), target.find('?')));
  const std::string start = lower(target.substr(0, 8));
  const size_t host = start.starts_with("http://") ? 7 : start == "https://" ? 8 : 0;
  if (host > 0) {
    const size_t path = std::min(target.size(), target.find('/', host));
    target.erase(0, path);
    return target.empty() ? "/" : target;
  }
  return target;
}

}  // namespace

struct HttpRequestParser::Impl {
  http::request_parser<http::string_body> parser;
};

HttpRequestParser::HttpRequestParser(const HttpLimits& limits)
    : impl_(std::make_unique<Impl>()), limits_(limits) {
  impl_->parser.header_limit(static_cast<uint32_t>(limits.header_bytes));
  impl_->parser.body_limit(static_cast<uint64_t>(limits.body_bytes));
}

HttpRequestParser::~HttpRequestParser() = default;

void HttpRequestParser::fail(int status, std::string message) {
  state_ = State::kFailed;
  status_ = status;
  message_ = std::move(message);
}

void HttpRequestParser::take_head() {
  const auto& head = impl_->parser.get();
  const auto method = head.method_string();
  const auto target = head.target();
  request_.method.assign(method.data(), method.size());
  request_.path = path_of(std::string(target.data(), target.size()));
  for (const auto& field : head) {
    const auto name = field.name_string();
    const auto value = field.value();
    request_.headers.emplace_back(lower(std::string(name.data(), name.size())),
                                  std::string(value.data(), value.size()));
  }
  http_1_0_ = head.version() == 10;
  keep_alive_ = impl_->parser.keep_alive();
  const std::string* expect = request_.header("expect");
  expects_continue_ = expect != nullptr && lower(*expect) == "100-continue";
  state_ = State::kHeadDone;
}

int64_t HttpRequestParser::put(std::string_view bytes) {
  if (state_ == State::kDone || state_ == State::kFailed) {
    return 0;
  }
  auto& parser = impl_->parser;
  const bool in_head = state_ == State::kHead;
  parser.eager(!in_head);
  state_ = in_head ? State::kHead : State::kBody;
  boost::beast::error_code error;
  size_t used = 0;
  if (!parser.is_done() && !bytes.empty()) {
    used = parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  }
  if (error && error != http::error::need_more) {
    if (error == http::error::header_limit) {
      fail(431, fmt::format("the request's header is longer than {} bytes", limits_.header_bytes));
    } else if (error == http::error::body_limit) {
      fail(413, fmt::format("the request's body is longer than {} bytes", limits_.body_bytes));
    } else if (error == http::error::bad_version) {
      fail(505, "the request is not HTTP/1.0 or HTTP/1.1");
    } else {
      fail(400, fmt::format("the request is not valid HTTP: {}", error.message()));
    }
    return static_cast<int64_t>(used);
  }
  if (in_head && parser.is_header_done()) {
    take_head();
  } else if (!in_head && parser.is_done()) {
    request_.body = std::move(parser.get().body());
    state_ = State::kDone;
  }
  return static_cast<int64_t>(used);
}

}  // namespace plait
