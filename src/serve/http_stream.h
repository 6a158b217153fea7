// A connection's bytes, plain or TLS: keeps the socket library out of the sessions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace plait {

// To be used on the I/O thread; at most one read and one write at a time. The buffers must live
// until `done` is called, which happens later on the I/O thread.
class HttpStream {
 public:
  // `failed`: end of stream, an error, or closed.
  using Done = std::function<void(bool failed, int64_t bytes)>;
  struct Span {
    char* data = nullptr;
    int64_t bytes = 0;
  };
  virtual ~HttpStream() = default;
  virtual void handshake(Done done) = 0;  // before all else
  virtual void read_some(Span buffer, Done done) = 0;
  virtual void write_some(std::string_view bytes, Done done) = 0;
  virtual void shut_down_write() = 0;  // the client sees the end; reading goes on
  virtual void close() = 0;
};

}  // namespace plait
