#include "comm/mpi/tcp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace plait {

std::vector<std::string> own_addresses() {
  std::vector<std::string> result = {"127.0.0.1"};
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return result;
  }
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET) {
      sockaddr_in address{};
      std::memcpy(&address, entry->ifa_addr, sizeof(address));
      char text[INET_ADDRSTRLEN] = {};
      inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
      if (std::ranges::find(result, text) == result.end()) {
        result.emplace_back(text);
      }
    }
  }
  freeifaddrs(list);
  return result;
}

void set_no_delay(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int try_connect(const std::string& host, int port, double timeout_s) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (connect(fd, generic, sizeof(address)) != 0 && errno == EINPROGRESS) {
    pollfd entry{fd, POLLOUT, 0};
    poll(&entry, 1, static_cast<int>(timeout_s * 1e3));
  }
  int error = 0;
  socklen_t length = sizeof(error);
  sockaddr_in peer{};
  socklen_t peer_length = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0) {
    close(fd);
    return -1;
  }
  set_no_delay(fd);
  return fd;
}

std::string read_greeting(int fd, double timeout_s) {
  std::string line;
  const Deadline deadline = Deadline::after_s(timeout_s);
  while (line.size() < 100 && !deadline.passed()) {
    pollfd entry{fd, POLLIN, 0};
    poll(&entry, 1, std::max(1, static_cast<int>(deadline.left_s() * 1e3)));
    char c = 0;
    const ssize_t got = recv(fd, &c, 1, 0);
    if (got == 0 || c == '\n') {
      break;
    }
    if (got == 1) {
      line += c;
    }
  }
  return line;
}

}  // namespace plait
