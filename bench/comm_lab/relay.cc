// A switch in user space for the communication lab: every ordered pair of ports is a link with a
// rate, a delay and a loss of its own. Kernels without sch_netem can do no more than limit a rate.
//   comm_lab_relay RATE_MBIT DELAY_US PORT...
// Commands on stdin, one a line; S and D are port numbers or '*':
//   rate S D MBIT | loss S D SHARE | delay S D US | down PORT | up PORT
// Frames travel with their offload header (packet(7), PACKET_VNET_HDR): senders hand over segments
// of up to 64 KiB whose checksums are not filled in.
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"

namespace {

constexpr size_t kVnetHeader = 10;
constexpr size_t kLongestFrame = kVnetHeader + ETH_HLEN + 65536;
constexpr size_t kQueueBytes = 1 << 20;  // of a link; more is dropped, as a switch does
constexpr int kBurst = 32;

struct Frame {
  double due_s = 0;
  std::vector<char> bytes;
};

struct Link {
  double mbit = 100;
  double delay_s = 0;
  double loss = 0;
  double free_s = 0;  // when the last frame has left
  size_t queued = 0;
  std::deque<Frame> frames;
};

using Mac = std::array<char, 6>;

class Relay {
 public:
  Relay(double mbit, double delay_s, const std::vector<std::string>& ports) {
    for (const std::string& port : ports) {
      sockets_.push_back(open_port(port));
      up_.push_back(true);
    }
    links_.resize(ports.size() * ports.size());
    for (Link& link : links_) {
      link.mbit = mbit;
      link.delay_s = delay_s;
    }
  }

  void run() {
    bool commands = true;
    for (;;) {
      std::vector<pollfd> events;
      for (const int socket : sockets_) {
        events.push_back({socket, POLLIN, 0});
      }
      if (commands) {
        events.push_back({STDIN_FILENO, POLLIN, 0});
      }
      const double wait = std::max(next_due() - plait::now_s(), 0.0);
      timespec timeout{};
      timeout.tv_sec = static_cast<time_t>(wait);
      timeout.tv_nsec = static_cast<long>((wait - static_cast<double>(timeout.tv_sec)) * 1e9);
      ppoll(events.data(), events.size(), &timeout, nullptr);
      if (commands && (events.back().revents & (POLLIN | POLLHUP)) != 0) {
        commands = read_commands();
      }
      for (size_t port = 0; port < sockets_.size(); ++port) {
        if ((events[port].revents & POLLIN) != 0) {
          receive(port);
        }
      }
      send_due();
    }
  }

 private:
  static int open_port(const std::string& name) {
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
    const int on = 1, space = 16 << 20;
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
    if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0 ||
        bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      std::perror(name.c_str());
      std::exit(1);
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &space, sizeof space);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &space, sizeof space);
    return fd;
  }

  Link& link(size_t source, size_t destination) {
    return links_[source * sockets_.size() + destination];
  }

  double next_due() const {
    double due = plait::now_s() + 1;
    for (const Link& one : links_) {
      due = one.frames.empty() ? due : std::min(due, one.frames.front().due_s);
    }
    return due;
  }

  // False at the end of the input: the relay goes on as it is.
  bool read_commands() {
    char line[256];
    const ssize_t got = read(STDIN_FILENO, line, sizeof line);
    if (got <= 0) {
      return false;
    }
    input_.append(line, static_cast<size_t>(got));
    for (size_t end = input_.find('\n'); end != std::string::npos; end = input_.find('\n')) {
      obey(input_.substr(0, end));
      input_.erase(0, end + 1);
    }
    return true;
  }

  void obey(const std::string& line) {
    std::istringstream words(line);
    std::string command, source, destination;
    double value = 0;
    words >> command >> source;
    if (command == "down" || command == "up") {
      up_.at(std::stoul(source)) = command == "up";
      return;
    }
    words >> destination >> value;
    for (size_t s = 0; s < sockets_.size(); ++s) {
      for (size_t d = 0; d < sockets_.size(); ++d) {
        if ((source != "*" && std::stoul(source) != s) ||
            (destination != "*" && std::stoul(destination) != d)) {
          continue;
        }
        Link& one = link(s, d);
        (command == "rate"   ? one.mbit
         : command == "loss" ? one.loss
                             : one.delay_s) = command == "delay" ? value * 1e-6 : value;
      }
    }
  }

  void receive(size_t port) {
    char buffer[kLongestFrame];
    for (int i = 0; i < kBurst; ++i) {
      const ssize_t got = recv(sockets_[port], buffer, sizeof buffer, 0);
      if (got < static_cast<ssize_t>(kVnetHeader + ETH_HLEN)) {
        return;
      }
      Mac to, from;
      std::memcpy(to.data(), buffer + kVnetHeader, 6);
      std::memcpy(from.data(), buffer + kVnetHeader + 6, 6);
      port_of_[from] = port;
      const auto known = port_of_.find(to);
      for (size_t d = 0; d < sockets_.size(); ++d) {
        if (d != port && (known == port_of_.end() || known->second == d)) {
          queue(port, d, buffer, static_cast<size_t>(got));
        }
      }
    }
  }

  void queue(size_t source, size_t destination, const char* bytes, size_t size) {
    Link& one = link(source, destination);
    if (!up_[source] || !up_[destination] || one.queued + size > kQueueBytes ||
        uniform_(random_) < one.loss) {
      return;
    }
    const double start = std::max(one.free_s, plait::now_s());
    one.free_s = start + static_cast<double>(size) * 8 / (one.mbit * 1e6);
    one.frames.push_back({one.free_s + one.delay_s, {bytes, bytes + size}});
    one.queued += size;
  }

  void send_due() {
    const double now = plait::now_s();
    for (size_t s = 0; s < sockets_.size(); ++s) {
      for (size_t d = 0; d < sockets_.size(); ++d) {
        Link& one = link(s, d);
        while (!one.frames.empty() && one.frames.front().due_s <= now) {
          const Frame& frame = one.frames.front();
          // A full socket drops the frame, as a switch would.
          [[maybe_unused]] const ssize_t sent =
              send(sockets_[d], frame.bytes.data(), frame.bytes.size(), 0);
          one.queued -= frame.bytes.size();
          one.frames.pop_front();
        }
      }
    }
  }

  std::vector<int> sockets_;
  std::vector<bool> up_;
  std::vector<Link> links_;
  std::map<Mac, size_t> port_of_;
  std::string input_;
  std::mt19937_64 random_{1};
  std::uniform_real_distribution<double> uniform_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: comm_lab_relay RATE_MBIT DELAY_US PORT PORT...\n");
    return 2;
  }
  prctl(PR_SET_TIMERSLACK, 1UL);
  Relay(std::atof(argv[1]), std::atof(argv[2]) * 1e-6, {argv + 3, argv + argc}).run();
}
