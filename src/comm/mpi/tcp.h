// The few TCP calls of the side channel. Sockets are non-blocking.
#pragma once

#include <string>
#include <vector>

namespace plait {

// IPv4 addresses of this host, the loopback first.
std::vector<std::string> own_addresses();

// Sends small lines at once.
void set_no_delay(int socket);

// A connected socket, or -1 when that fails or takes longer than `timeout_s`.
int try_connect(const std::string& host, int port, double timeout_s);

// Waits for one line of at most 100 bytes on a fresh connection; what came until the time was up.
std::string read_greeting(int fd, double timeout_s);

}  // namespace plait
