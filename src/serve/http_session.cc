#include "serve/http_session.h"

#include <utility>

#include <fmt/format.h>

#include "base/clock.h"

namespace plait {

// The writer of one answer. Outlives the session's interest in it: a stale one does nothing.
class HttpExchange final : public ResponseWriter {
 public:
  HttpExchange(std::shared_ptr<HttpSession> session, uint64_t id)
      : session_(std::move(session)), id_(id) {}

  void respond(HttpResponse response) override {
    if (!closed()) {
      session_->send_response(response);
    }
  }
  void start_stream(const HttpResponse& head) override {
    if (!closed()) {
      session_->start_stream(head);
    }
  }
  void write(std::string_view bytes) override {
    if (!closed()) {
      session_->write_chunk(bytes);
    }
  }
  void finish() override {
    if (!closed()) {
      session_->finish_answer();
    }
  }
  bool closed() const override {
    return session_->closed_ || !session_->answering_ || session_->exchange_ != id_;
  }
  void on_gone(std::function<void()> gone) override {
    if (!closed()) {
      session_->gone_ = std::move(gone);
    }
  }

 private:
  std::shared_ptr<HttpSession> session_;
  uint64_t id_;
};

namespace {

constexpr int64_t kReadBytes = 8 << 10;

}  // namespace

HttpSession::HttpSession(std::unique_ptr<HttpStream> stream, HttpSessionContext& context)
    : stream_(std::move(stream)), context_(&context), read_buffer_(kReadBytes, '\0') {}

void HttpSession::begin(std::function<void()> then) {
  parser_ = std::make_unique<HttpRequestParser>(context_->limits);
  read_deadline_ = now_s() + context_->limits.request_s;
  stream_->handshake([self = shared_from_this(), then = std::move(then)](bool failed, int64_t) {
    if (failed) {
      self->close();
      return;
    }
    then();
    self->read_more();
  });
}

void HttpSession::start() {
  begin([this] { read_deadline_ = now_s() + context_->limits.idle_s; });
}

void HttpSession::start_refused() {
  begin([this] {
    refuse(503, fmt::format("the server has {} connections open and accepts no more",
                            context_->limits.connections));
  });
}

void HttpSession::read_more() {
  if (reading_ || closed_) {
    return;
  }
  if (answering_ && static_cast<int64_t>(input_.size()) >= context_->limits.read_ahead_bytes) {
    return;  // goes on after the answer
  }
  reading_ = true;
  stream_->read_some(
      {read_buffer_.data(), static_cast<int64_t>(read_buffer_.size())},
      [self = shared_from_this()](bool failed, int64_t bytes) { self->on_read(failed, bytes); });
}

void HttpSession::on_read(bool failed, int64_t bytes) {
  reading_ = false;
  if (closed_) {
    return;
  }
  if (failed) {
    close();
    return;
  }
  if (lingering_) {
    read_more();
    return;
  }
  input_.append(read_buffer_.data(), static_cast<size_t>(bytes));
  if (!answering_) {
    parse();
  }
  read_more();
}

void HttpSession::set_body_bytes(int64_t bytes) {
  context_->bodies_bytes += bytes - body_bytes_;
  body_bytes_ = bytes;
}

// One request after another, as far as the bytes reach. A handler that answers at once comes back
// here through after_answer(); the flag keeps that from recursing.
void HttpSession::parse() {
  if (in_parse_) {
    return;
  }
  in_parse_ = true;
  while (!closed_ && !answering_ && !lingering_ && parse_step()) {
  }
  in_parse_ = false;
}

// Returns whether there may be more to do.
bool HttpSession::parse_step() {
  if (input_.empty() && parser_->state() != HttpRequestParser::State::kHeadDone) {
    return false;
  }
  if (!request_started_) {
    request_started_ = true;
    read_deadline_ = now_s() + context_->limits.request_s;
  }
  const int64_t used = parser_->put(input_);
  input_.erase(0, static_cast<size_t>(used));
  switch (parser_->state()) {
    case HttpRequestParser::State::kFailed:
      refuse(parser_->status(), parser_->message());
      return false;
    case HttpRequestParser::State::kHeadDone: {
      if (auto response = context_->handler->check_head(parser_->request())) {
        // A body would follow, unread: the connection could not be used again.
        answering_ = true;
        ++exchange_;
        is_head_ = parser_->request().method == "HEAD";
        const HttpRequest& request = parser_->request();
        const bool has_body = request.header("content-length") != nullptr ||
                              request.header("transfer-encoding") != nullptr;
        keep_alive_ = parser_->keep_alive() && !has_body && !context_->closing;
        send_response(*response);
        return true;
      }
      if (parser_->expects_continue()) {
        queue("HTTP/1.1 100 Continue\r\n\r\n");
      }
      return true;
    }
    case HttpRequestParser::State::kDone:
      dispatch();
      return true;
    default:
      break;
  }
  set_body_bytes(body_bytes_ + used);
  if (context_->bodies_bytes > context_->limits.all_bodies_bytes) {
    refuse(503, "the server holds too many unfinished request bodies; try again later");
    return false;
  }
  if (used == 0 && static_cast<int64_t>(input_.size()) > context_->limits.header_bytes) {
    refuse(400, "the request is not valid HTTP: an endless line");
    return false;
  }
  return used > 0 && !input_.empty();
}

void HttpSession::dispatch() {
  set_body_bytes(0);
  read_deadline_ = kNever;
  answering_ = true;
  ++exchange_;
  is_head_ = parser_->request().method == "HEAD";
  keep_alive_ = parser_->keep_alive() && !context_->closing;
  HttpRequest request = std::move(parser_->request());
  context_->handler->handle(std::move(request),
                            std::make_shared<HttpExchange>(shared_from_this(), exchange_));
}

void HttpSession::refuse(int status, const std::string& message) {
  set_body_bytes(0);
  answering_ = true;
  ++exchange_;
  is_head_ = false;
  keep_alive_ = false;
  send_response(context_->handler->refusal(status, message));
}

std::string HttpSession::head_text(const HttpResponse& response) const {
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\n", response.status, http_reason(response.status));
  if (response.status != 204) {
    text += fmt::format("content-type: {}\r\n", response.content_type);
  }
  for (const auto& field : response.headers) {
    text += fmt::format("{}: {}\r\n", field.first, field.second);
  }
  return text + (keep_alive_ ? "connection: keep-alive\r\n" : "connection: close\r\n");
}

void HttpSession::send_response(const HttpResponse& response) {
  std::string text = head_text(response);
  if (response.status != 204) {
    text += fmt::format("content-length: {}\r\n", response.body.size());
  }
  text += "\r\n";
  if (!is_head_) {
    text += response.body;
  }
  queue(text);
  after_answer();
}

void HttpSession::start_stream(const HttpResponse& head) {
  streaming_ = true;
  chunked_ = !parser_->is_http_1_0();
  if (!chunked_) {
    keep_alive_ = false;  // the end of the connection ends the body
  }
  queue(head_text(head) + (chunked_ ? "transfer-encoding: chunked\r\n\r\n" : "\r\n"));
}

void HttpSession::write_chunk(std::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  if (static_cast<int64_t>(out_.size()) > context_->limits.write_queue_bytes) {
    close();  // the client does not read
    return;
  }
  if (chunked_) {
    queue(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
  } else {
    queue(bytes);
  }
}

void HttpSession::finish_answer() {
  if (streaming_ && chunked_) {
    queue("0\r\n\r\n");
  }
  after_answer();
}

// The answer is queued in full.
void HttpSession::after_answer() {
  if (closed_) {
    return;
  }
  answering_ = false;
  streaming_ = false;
  chunked_ = false;
  request_started_ = false;
  gone_ = nullptr;
  if (!keep_alive_) {
    lingering_ = true;
    read_deadline_ = kNever;
    input_.clear();
    if (!writing_) {
      linger();
    }
    return;
  }
  parser_ = std::make_unique<HttpRequestParser>(context_->limits);
  read_deadline_ = now_s() + context_->limits.idle_s;
  parse();
  read_more();
}

// Closing with bytes unread would send a reset that can overtake the answer.
void HttpSession::linger() {
  stream_->shut_down_write();
  read_deadline_ = now_s() + context_->limits.linger_s;
  read_more();
}

void HttpSession::queue(std::string_view bytes) {
  out_ += bytes;
  if (!writing_) {
    write_more();
  }
}

void HttpSession::write_more() {
  if (active_done_ == static_cast<int64_t>(active_.size())) {
    active_.clear();
    active_done_ = 0;
    active_.swap(out_);
  }
  if (active_.empty() || closed_) {
    return;
  }
  writing_ = true;
  write_deadline_ = now_s() + context_->limits.write_s;
  stream_->write_some(
      std::string_view(active_).substr(static_cast<size_t>(active_done_)),
      [self = shared_from_this()](bool failed, int64_t bytes) { self->on_written(failed, bytes); });
}

void HttpSession::on_written(bool failed, int64_t bytes) {
  writing_ = false;
  write_deadline_ = kNever;
  if (closed_) {
    return;
  }
  if (failed) {
    close();
    return;
  }
  active_done_ += bytes;
  write_more();
  if (!writing_ && lingering_) {
    linger();
  }
}

void HttpSession::check_deadlines(double now) {
  if (closed_) {
    return;
  }
  if (now >= write_deadline_) {
    close();
    return;
  }
  if (now < read_deadline_) {
    return;
  }
  if (request_started_ && !lingering_ && !answering_) {
    refuse(408, fmt::format("the request did not arrive within {} s", context_->limits.request_s));
  } else {
    close();
  }
}

void HttpSession::close_if_idle() {
  if (!answering_ && !writing_ && !lingering_) {
    close();
  }
}

void HttpSession::close() {
  if (closed_) {
    return;
  }
  closed_ = true;
  set_body_bytes(0);
  stream_->close();
  if (auto gone = std::exchange(gone_, nullptr)) {
    gone();
  }
}

}  // namespace plait
