#include "comm/mpi/side_channel.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/rng.h"
#include "base/text.h"
#include "comm/fault.h"
#include "comm/mpi/tcp.h"
#include "comm/op_state.h"

namespace plait {
namespace {

constexpr int kHeartbeatMs = 50;
constexpr size_t kMaxLine = 65536;
// How long rank 0 stays after it has told everybody of a loss, so that nobody takes its own exit
// for the cause.
constexpr double kLingerS = 0.3;
// With leave_after_s: the longest stay after a rank has died, and how much longer than rank 0 the
// others stay.
constexpr double kStayAfterDeathS = 3;
constexpr double kMemberStayS = 1;

// Text of a field: separators become spaces.
std::string field(std::string text) {
  for (char& c : text) {
    if (c == '\t' || c == '\n') {
      c = ' ';
    }
  }
  return text.substr(0, 2000);
}

template <typename T>
T number(const std::string& text) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::string SideChannelAddress::encode() const {
  std::string text = fmt::format("{}\t{}", port, token);
  for (const std::string& host : hosts) {
    text += "\t" + host;
  }
  return text;
}

SideChannelAddress SideChannelAddress::decode(const std::string& text) {
  const std::vector<std::string> fields = split(text, '\t');
  SideChannelAddress address;
  CHECK_GE(fields.size(), size_t{2});
  address.port = number<int>(fields[0]);
  address.token = number<uint64_t>(fields[1]);
  address.hosts.assign(fields.begin() + 2, fields.end());
  return address;
}

SideChannel::SideChannel(const SideChannelOptions& options) : options_(options) {
  if (pipe2(wake_pipe_, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw_error(ErrorCode::kResourceExhausted, "no pipe for the side channel: {}",
                std::strerror(errno));
  }
}

SideChannel::~SideChannel() {
  end_ = true;
  [[maybe_unused]] const ssize_t written = write(wake_pipe_[1], "x", 1);
  if (thread_.joinable()) {
    thread_.join();
  }
  for (const Peer& peer : peers_) {
    if (peer.socket >= 0) {
      close(peer.socket);
    }
  }
  if (listener_ >= 0) {
    close(listener_);
  }
  close(wake_pipe_[0]);
  close(wake_pipe_[1]);
}

SideChannelAddress SideChannel::listen() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || bind(listener_, generic, sizeof(address)) != 0 ||
      ::listen(listener_, options_.size) != 0 || getsockname(listener_, generic, &length) != 0) {
    throw_error(ErrorCode::kUnavailable, "rank 0 cannot listen for the side channel: {}",
                std::strerror(errno));
  }
  token_ = random_bits(static_cast<uint64_t>(now_s() * 1e9), static_cast<uint64_t>(getpid()), 0);
  return {own_addresses(), ntohs(address.sin_port), token_};
}

void SideChannel::connect_to(const SideChannelAddress& address) {
  for (const std::string& host : address.hosts) {
    const int fd = try_connect(host, address.port, 2);
    if (fd < 0) {
      continue;
    }
    Peer root;
    root.socket = fd;
    root.rank = 0;
    root.last_heard_s = now_s();
    send_line(root, fmt::format("hello\t{}\t{}\t{}\t{}", address.token, options_.rank,
                                field(host_name()), getpid()));
    const std::vector<std::string> greeting = split(read_greeting(fd, 5), '\t');
    if (greeting.size() == 3 && greeting[0] == "welcome") {
      root.host = greeting[1];
      root.pid = number<int64_t>(greeting[2]);
      peers_.push_back(std::move(root));
      return;
    }
    close(fd);
  }
  throw_error(ErrorCode::kUnavailable,
              "rank {} reaches rank 0 at none of its addresses (port {}); open the port range "
              "between the hosts",
              options_.rank, address.port);
}

void SideChannel::start(const SideChannelAddress& address) {
  token_ = address.token;
  if (options_.rank != 0) {
    connect_to(address);
  }
  hold_sigterm_for_report();
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "plait-side");
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    run();
  });
}

void SideChannel::run() {
  double next_heartbeat_s = 0;
  while (!end_) {
    std::vector<pollfd> entries = {{wake_pipe_[0], POLLIN, 0}};
    if (listener_ >= 0) {
      entries.push_back({listener_, POLLIN, 0});
    }
    const size_t first_peer = entries.size();
    std::vector<size_t> indices;
    {
      const std::scoped_lock lock(mutex_);
      for (size_t i = 0; i < peers_.size(); ++i) {
        if (peers_[i].socket >= 0) {
          entries.push_back({peers_[i].socket, POLLIN, 0});
          indices.push_back(i);
        }
      }
    }
    poll(entries.data(), entries.size(), kHeartbeatMs / 2);
    const std::scoped_lock lock(mutex_);
    char drained[64];
    while (read(wake_pipe_[0], drained, sizeof(drained)) > 0) {
    }
    for (size_t i = 0; i < indices.size(); ++i) {
      Peer& peer = peers_[indices[i]];
      if (entries[first_peer + i].revents != 0 && !read_from(peer)) {
        closed(peer);
      }
    }
    if (listener_ >= 0 && (entries[1].revents & POLLIN) != 0) {
      accept_peer();
    }
    if (now_s() >= next_heartbeat_s) {
      next_heartbeat_s = now_s() + kHeartbeatMs * 1e-3;
      heartbeat();
      check_silence();
    }
  }
}

void SideChannel::accept_peer() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    return;
  }
  set_no_delay(fd);
  Peer peer;
  peer.socket = fd;
  peer.last_heard_s = now_s();
  peers_.push_back(std::move(peer));
}

bool SideChannel::read_from(Peer& peer) {
  char block[4096];
  for (;;) {
    const ssize_t got = recv(peer.socket, block, sizeof(block), 0);
    if (got < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    if (got == 0) {
      return false;
    }
    peer.input.append(block, static_cast<size_t>(got));
    size_t end = 0;
    while ((end = peer.input.find('\n')) != std::string::npos) {
      const std::string line = peer.input.substr(0, end);
      peer.input.erase(0, end + 1);
      handle(peer, line);
    }
    if (peer.input.size() > kMaxLine) {
      return false;
    }
  }
}

void SideChannel::handle(Peer& peer, const std::string& line) {
  const std::vector<std::string> fields = split(line, '\t');
  if (options_.rank == 0) {
    handle_from_member(peer, fields);
  } else {
    handle_from_root(peer, fields);
  }
  peer.last_heard_s = now_s();
}

void SideChannel::handle_from_member(Peer& peer, const std::vector<std::string>& fields) {
  const std::string& what = fields[0];
  if (what == "hello" && fields.size() == 5 && number<uint64_t>(fields[1]) == token_) {
    peer.rank = number<int>(fields[2]);
    peer.host = fields[3];
    peer.pid = number<int64_t>(fields[4]);
    send_line(peer, fmt::format("welcome\t{}\t{}", field(host_name()), getpid()));
  } else if (peer.rank < 0) {
    return;  // a stranger
  } else if (what == "state" && fields.size() == 2) {
    peer.operation = fields[1];
  } else if (what == "ask") {
    send_table(peer);
  } else if (what == "failed" && fields.size() == 2) {
    peer.failed = true;
    broadcast("failed\t" + fields[1], &peer);
    stop(fields[1]);
  } else if (what == "bye") {
    peer.said_goodbye = true;
    changed_.notify_all();
  }
}

void SideChannel::handle_from_root(Peer& peer, const std::vector<std::string>& fields) {
  const std::string& what = fields[0];
  if (what == "state" && fields.size() == 2) {
    peer.operation = fields[1];
  } else if (what == "row" && fields.size() == 3) {
    table_[number<int>(fields[1])] = fields[2];
  } else if (what == "end") {
    table_complete_ = true;
    changed_.notify_all();
  } else if (what == "failed" && fields.size() == 2) {
    peer.failed = true;
    stop(fields[1]);
  } else if (what == "bye") {
    everybody_left_ = true;
    changed_.notify_all();
  } else if (what == "lost" && fields.size() == 7) {
    Peer gone;
    gone.rank = number<int>(fields[1]);
    if (gone.rank == options_.rank) {
      leave_after_pause();
    }
    gone.host = fields[2];
    gone.pid = number<int64_t>(fields[3]);
    gone.operation = fields[5];
    lose(gone, {.died = fields[6] == "died", .how = fields[4]});
  }
}

void SideChannel::heartbeat() {
  const std::string line = "state\t" + field(describe_operations(options_.rank));
  broadcast(line, nullptr);
}

void SideChannel::check_silence() {
  for (const Peer& peer : peers_) {
    const double silent_s = now_s() - peer.last_heard_s;
    if (peer.socket >= 0 && peer.rank >= 0 && !peer.said_goodbye && !leaving_ && !failing_ &&
        !stopped() && silent_s > options_.silence_s) {
      lose(peer, {.died = false,
                  .how = fmt::format("no heartbeat for {:.1f} s: it was stopped, or its host hangs",
                                     silent_s)});
    }
  }
}

void SideChannel::closed(Peer& peer) {
  close(peer.socket);
  peer.socket = -1;
  const bool is_expected = peer.rank < 0 || peer.said_goodbye || peer.failed || end_ || failing_ ||
                           (options_.rank != 0 && leaving_) || stopped();
  if (!is_expected) {
    lose(peer, {.died = true, .how = "its connection closed: it was killed or has crashed"});
  }
}

void SideChannel::stay(const Peer& peer, const Loss& loss) const {
  double stay_s =
      loss.died ? std::min(options_.leave_after_s, kStayAfterDeathS) : options_.leave_after_s;
  if (stay_s <= 0 || peer.rank == 0) {
    return;
  }
  stay_s += options_.rank == 0 ? 0 : kMemberStayS;
  const Deadline end = Deadline::after_s(stay_s);
  while (!end.passed()) {
    usleep(static_cast<useconds_t>(std::clamp(end.left_s(), 0.0, 0.5) * 1e6) + 1);
  }
}

void SideChannel::lose(const Peer& peer, const Loss& loss) {
  set_peer_lost();
  const FaultReport report{options_.rank,
                           peer.rank,
                           peer.host,
                           peer.pid,
                           loss.how,
                           peer.operation,
                           describe_operations(options_.rank)};
  if (options_.rank == 0) {
    broadcast(fmt::format("lost\t{}\t{}\t{}\t{}\t{}\t{}", peer.rank, peer.host, peer.pid, loss.how,
                          field(peer.operation), loss.died ? "died" : "stopped"),
              nullptr);
  }
  report_fault(report, options_.run_dir);
  if (options_.on_lost_rank) {
    options_.on_lost_rank(fmt::format("rank {} (host {}, pid {}) was lost: {}", peer.rank,
                                      peer.host, peer.pid, loss.how));
  }
  stay(peer, loss);
  std::fflush(nullptr);
  if (options_.rank == 0) {
    // Members leave when they have read the line; unread bytes at exit would reset connections.
    const Deadline linger = Deadline::after_s(kLingerS);
    char block[4096];
    while (!linger.passed()) {
      bool any = false;
      for (Peer& member : peers_) {
        if (member.socket >= 0 && recv(member.socket, block, sizeof(block), 0) == 0) {
          close(member.socket);
          member.socket = -1;
        }
        any = any || (member.socket >= 0 && member.rank != peer.rank);
      }
      if (!any) {
        break;
      }
      usleep(1000);
    }
  }
  _exit(3);
}

void SideChannel::leave_after_pause() {
  set_peer_lost();
  const std::string line = fmt::format(
      "plait: rank {} was stopped for longer than {:.1f} s and the other ranks have left. "
      "Exiting\n",
      options_.rank, options_.silence_s);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  _exit(3);
}

void SideChannel::stop(const std::string& reason) {
  set_peer_lost();
  if (!stopped()) {
    stop_reason_ = reason;
    stopped_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

std::string SideChannel::stop_reason() {
  const std::scoped_lock lock(mutex_);
  return stop_reason_;
}

void SideChannel::broadcast(const std::string& line, const Peer* except) {
  for (Peer& peer : peers_) {
    if (&peer != except && peer.socket >= 0 && peer.rank >= 0) {
      send_line(peer, line);
    }
  }
}

void SideChannel::send_line(Peer& peer, const std::string& line) {
  // A peer whose buffer is full has not read for minutes; silence will be noticed, so nothing waits
  // here. A line that was cut would garble the next one: the connection ends instead.
  const std::string text = line + "\n";
  const ssize_t sent = send(peer.socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0 && static_cast<size_t>(sent) < text.size()) {
    shutdown(peer.socket, SHUT_WR);
  }
}

void SideChannel::send_table(Peer& peer) {
  send_line(peer, "row\t0\t" + field(describe_operations(0)));
  for (const Peer& other : peers_) {
    if (other.rank > 0) {
      send_line(peer, fmt::format("row\t{}\t{}", other.rank, field(other.operation)));
    }
  }
  send_line(peer, "end");
}

std::map<int, std::string> SideChannel::operations(double timeout_s) {
  std::unique_lock lock(mutex_);
  if (options_.rank == 0) {
    table_[0] = describe_operations(0);
    for (const Peer& peer : peers_) {
      if (peer.rank > 0) {
        table_[peer.rank] = peer.operation;
      }
    }
    return table_;
  }
  table_complete_ = false;
  broadcast("ask", nullptr);
  changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                    [&] { return table_complete_ || stopped(); });
  return table_;
}

void SideChannel::announce_failure(const std::string& message) {
  // Called with the lock held when a CHECK fails on this very thread: then the closed connection
  // has to do.
  std::unique_lock lock(mutex_, std::defer_lock);
  if (std::this_thread::get_id() == thread_.get_id()) {
    return;
  }
  lock.lock();
  set_peer_lost();
  failing_ = true;
  broadcast("failed\t" + field(message), nullptr);
}

void SideChannel::say_goodbye(double timeout_s) {
  std::unique_lock lock(mutex_);
  leaving_ = true;
  const auto limit = std::chrono::duration<double>(timeout_s);
  if (options_.rank != 0) {
    broadcast("bye", nullptr);
    changed_.wait_for(lock, limit, [&] { return everybody_left_ || stopped(); });
    return;
  }
  changed_.wait_for(lock, limit, [&] {
    return stopped() || std::ranges::all_of(peers_, [](const Peer& peer) {
             return peer.rank < 0 || peer.said_goodbye || peer.socket < 0;
           });
  });
  broadcast("bye", nullptr);
}

}  // namespace plait
