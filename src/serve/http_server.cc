#include "serve/http_server.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "serve/http_session.h"
#include "serve/http_stream.h"

namespace plait {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using SystemError = boost::system::error_code;

constexpr auto kTick = std::chrono::milliseconds(200);

class PlainStream final : public HttpStream {
 public:
  explicit PlainStream(tcp::socket socket) : socket_(std::move(socket)) {}
  ~PlainStream() override { PlainStream::close(); }

  void handshake(Done done) override {
    asio::post(socket_.get_executor(), [done = std::move(done)] { done(false, 0); });
  }
  void read_some(Span buffer, Done done) override {
    socket_.async_read_some(asio::buffer(buffer.data, static_cast<size_t>(buffer.bytes)),
                            [done = std::move(done)](const SystemError& error, size_t bytes) {
                              done(static_cast<bool>(error), static_cast<int64_t>(bytes));
                            });
  }
  void write_some(std::string_view bytes, Done done) override {
    socket_.async_write_some(asio::buffer(bytes.data(), bytes.size()),
                             [done = std::move(done)](const SystemError& error, size_t count) {
                               done(static_cast<bool>(error), static_cast<int64_t>(count));
                             });
  }
  void shut_down_write() override {
    SystemError ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  void close() override {
    SystemError ignored;
    socket_.close(ignored);
  }

 private:
  tcp::socket socket_;
};

// Shared with its pending operations: a TLS shutdown may outlive the session.
class TlsStream final : public HttpStream {
 public:
  TlsStream(tcp::socket socket, asio::ssl::context& context)
      : stream_(std::make_shared<Stream>(std::move(socket), context)) {}
  ~TlsStream() override { TlsStream::close(); }

  void handshake(Done done) override {
    stream_->async_handshake(asio::ssl::stream_base::server,
                             [stream = stream_, done = std::move(done)](const SystemError& error) {
                               done(static_cast<bool>(error), 0);
                             });
  }
  void read_some(Span buffer, Done done) override {
    stream_->async_read_some(
        asio::buffer(buffer.data, static_cast<size_t>(buffer.bytes)),
        [stream = stream_, done = std::move(done)](const SystemError& error, size_t bytes) {
          done(static_cast<bool>(error), static_cast<int64_t>(bytes));
        });
  }
  void write_some(std::string_view bytes, Done done) override {
    stream_->async_write_some(
        asio::buffer(bytes.data(), bytes.size()),
        [stream = stream_, done = std::move(done)](const SystemError& error, size_t count) {
          done(static_cast<bool>(error), static_cast<int64_t>(count));
        });
  }
  void shut_down_write() override {
    stream_->async_shutdown([stream = stream_](const SystemError&) {});
  }
  void close() override {
    SystemError ignored;
    stream_->lowest_layer().close(ignored);
  }

 private:
  using Stream = asio::ssl::stream<tcp::socket>;
  std::shared_ptr<Stream> stream_;
};

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, HttpHandler& handler);
  ~Impl() { stop(0); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  int port() const { return port_; }
  void start();
  void post(std::function<void()> work) { asio::post(io_, std::move(work)); }
  void stop(double flush_s);
  int64_t num_connections() const { return num_connections_; }

 private:
  void listen(const HttpServerOptions& options);
  void set_up_tls(const HttpServerOptions& options);
  void accept();
  void add_session(tcp::socket socket);
  void tick();
  void begin_stop(double flush_s);

  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer timer_{io_};
  std::unique_ptr<asio::ssl::context> tls_;
  HttpSessionContext context_;
  std::vector<std::shared_ptr<HttpSession>> sessions_;
  int port_ = 0;
  std::thread thread_;
  std::atomic<int64_t> num_connections_ = 0;
  bool accept_paused_ = false;
  double stop_at_ = 0;  // while stopping
};

HttpServer::Impl::Impl(const HttpServerOptions& options, HttpHandler& handler) {
  context_.limits = options.limits;
  context_.handler = &handler;
  set_up_tls(options);
  listen(options);
}

void HttpServer::Impl::set_up_tls(const HttpServerOptions& options) {
  if (options.tls_certificate.empty() && options.tls_key.empty()) {
    return;
  }
  tls_ = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  tls_->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                    asio::ssl::context::no_tlsv1_1);
  SystemError error;
  tls_->use_certificate_chain_file(options.tls_certificate, error);
  if (error) {
    throw_error(ErrorCode::kInvalidArgument, "cannot use '{}' as a TLS certificate (PEM): {}",
                options.tls_certificate, error.message());
  }
  tls_->use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
  if (error) {
    throw_error(ErrorCode::kInvalidArgument, "cannot use '{}' as the TLS key (PEM): {}",
                options.tls_key, error.message());
  }
}

void HttpServer::Impl::listen(const HttpServerOptions& options) {
  SystemError error;
  tcp::resolver resolver(io_);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    throw_error(ErrorCode::kInvalidArgument,
                "cannot listen on '{}': {}; give an address of this "
                "machine, as 127.0.0.1 or 0.0.0.0",
                options.host, error.message());
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) {
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    acceptor_.bind(endpoint, error);
  }
  if (!error) {
    acceptor_.listen(1024, error);
  }
  if (error == asio::error::address_in_use) {
    throw_error(ErrorCode::kInvalidArgument,
                "port {} of {} is in use by another program; stop it or choose another --port",
                options.port, options.host);
  }
  if (error) {
    throw_error(ErrorCode::kInvalidArgument, "cannot listen on port {} of {}: {}", options.port,
                options.host, error.message());
  }
  port_ = acceptor_.local_endpoint(error).port();
}

void HttpServer::Impl::start() {
  accept();
  tick();
  thread_ = std::thread([this] { io_.run(); });
}

void HttpServer::Impl::accept() {
  accept_paused_ = false;
  acceptor_.async_accept([this](const SystemError& error, tcp::socket socket) {
    if (!acceptor_.is_open()) {
      return;
    }
    if (error) {
      accept_paused_ = true;  // out of descriptors, perhaps: the next tick tries again
      return;
    }
    add_session(std::move(socket));
    accept();
  });
}

void HttpServer::Impl::add_session(tcp::socket socket) {
  SystemError ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  std::unique_ptr<HttpStream> stream;
  if (tls_ != nullptr) {
    stream = std::make_unique<TlsStream>(std::move(socket), *tls_);
  } else {
    stream = std::make_unique<PlainStream>(std::move(socket));
  }
  auto session = std::make_shared<HttpSession>(std::move(stream), context_);
  sessions_.push_back(session);
  num_connections_ = static_cast<int64_t>(sessions_.size());
  // Some room to say no in; beyond it the connection is dropped.
  const int64_t most = context_.limits.connections;
  if (num_connections_ > most + 64) {
    session->close();
  } else if (num_connections_ > most) {
    session->start_refused();
  } else {
    session->start();
  }
}

void HttpServer::Impl::tick() {
  const double now = now_s();
  for (const auto& session : sessions_) {
    session->check_deadlines(now);
    if (context_.closing) {
      session->close_if_idle();
    }
  }
  std::erase_if(sessions_, [](const auto& session) { return session->closed(); });
  num_connections_ = static_cast<int64_t>(sessions_.size());
  if (context_.closing && (sessions_.empty() || now >= stop_at_)) {
    for (const auto& session : sessions_) {
      session->close();
    }
    sessions_.clear();
    io_.stop();
    return;
  }
  if (accept_paused_ && !context_.closing) {
    accept();
  }
  context_.handler->tick();
  timer_.expires_after(kTick);
  timer_.async_wait([this](const SystemError& error) {
    if (!error) {
      tick();
    }
  });
}

void HttpServer::Impl::begin_stop(double flush_s) {
  SystemError ignored;
  acceptor_.close(ignored);
  context_.closing = true;
  stop_at_ = now_s() + flush_s;
  timer_.cancel();
  tick();
}

void HttpServer::Impl::stop(double flush_s) {
  if (!thread_.joinable()) {
    return;
  }
  post([this, flush_s] { begin_stop(flush_s); });
  thread_.join();
}

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler& handler)
    : impl_(std::make_unique<Impl>(options, handler)) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const {
  return impl_->port();
}
void HttpServer::start() {
  impl_->start();
}
void HttpServer::post(std::function<void()> work) {
  impl_->post(std::move(work));
}
void HttpServer::stop(double flush_s) {
  impl_->stop(flush_s);
}
int64_t HttpServer::num_connections() const {
  return impl_->num_connections();
}

}  // namespace plait
