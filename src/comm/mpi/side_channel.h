// A second line between the ranks of an MPI job, beside MPI: TCP connections of every rank to rank
// 0, served by one thread a process. MPI cannot tell who is missing; this can. Each rank sends a
// heartbeat with its current operation every 50 ms; rank 0 answers with its own.
//
// A connection that closes without a goodbye means that the peer's process is gone; heartbeats that
// stay out for longer than `silence_s` mean that it was stopped. Rank 0 tells everybody. A process
// that learns of a lost rank sets peer_lost(), reports (comm/fault.h) and leaves with exit status 3
// from the side channel's thread, at once or after `leave_after_s`, without unwinding: MPI calls in
// other threads cannot be interrupted.
//
// Lines of text, tab-separated, each at most a few hundred bytes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace plait {

struct SideChannelOptions {
  int rank = 0;
  int size = 1;
  double silence_s = 20;
  std::string run_dir;
  std::function<void(const std::string& what)> on_lost_rank = {};  // see RankRunnerOptions
  double leave_after_s = 0;
};

// Where rank 0 listens.
struct SideChannelAddress {
  std::vector<std::string> hosts;  // IPv4 addresses, most local first
  int port = 0;
  uint64_t token = 0;  // proves that a connection belongs to this job

  std::string encode() const;
  static SideChannelAddress decode(const std::string& text);
};

class SideChannel {
 public:
  explicit SideChannel(const SideChannelOptions& options);
  // Ends the thread; connections close. Without say_goodbye() before, peers take that for a loss.
  ~SideChannel();
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  // Rank 0: opens the port. Error: kUnavailable.
  SideChannelAddress listen();
  // Every rank, after the address has been passed around: connects (rank 0 needs nothing) and
  // starts the thread. Error: kUnavailable when no address answers.
  void start(const SideChannelAddress& address);

  // What every rank was in according to its last heartbeat; asks rank 0 and waits for at most
  // `timeout_s`. Ranks that are not known are missing. Thread-safe.
  std::map<int, std::string> operations(double timeout_s);

  // Tells everybody that this rank has failed and ends the job. Thread-safe.
  void announce_failure(const std::string& message);
  // True once another rank has announced a failure; waits stop then. Thread-safe.
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  // "rank 2: loss is NaN". Requires: stopped().
  std::string stop_reason();

  // Collective: returns when every rank has said goodbye or `timeout_s` has passed; connections
  // that close afterwards are no loss.
  void say_goodbye(double timeout_s);

 private:
  struct Peer {
    int socket = -1;
    std::string input;
    int rank = -1;
    std::string host;
    int64_t pid = 0;
    std::string operation = "before its first operation";
    double last_heard_s = 0;
    bool said_goodbye = false;
    bool failed = false;
  };

  void run();
  void accept_peer();
  // Reads what is there; false when the connection has ended.
  bool read_from(Peer& peer);
  void handle(Peer& peer, const std::string& line);
  void handle_from_root(Peer& peer, const std::vector<std::string>& fields);
  void handle_from_member(Peer& peer, const std::vector<std::string>& fields);
  void heartbeat();
  void check_silence();
  void closed(Peer& peer);
  struct Loss {
    bool died = false;  // else stopped
    std::string how;
  };
  // Reports that `peer` is lost and exits.
  [[noreturn]] void lose(const Peer& peer, const Loss& loss);
  // Waits before the exit.
  void stay(const Peer& peer, const Loss& loss) const;
  // This process was stopped, taken for lost, and runs again.
  [[noreturn]] void leave_after_pause();
  void stop(const std::string& reason);
  void broadcast(const std::string& line, const Peer* except);
  void send_line(Peer& peer, const std::string& line);
  void send_table(Peer& peer);
  void connect_to(const SideChannelAddress& address);

  const SideChannelOptions options_;
  uint64_t token_ = 0;
  int listener_ = -1;
  int wake_pipe_[2] = {-1, -1};
  std::thread thread_;
  std::atomic<bool> end_{false};
  std::atomic<bool> leaving_{false};  // has said goodbye
  std::atomic<bool> failing_{false};  // has announced a failure
  std::atomic<bool> stopped_{false};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Peer> peers_;  // rank 0: everybody else; others: rank 0
  std::string stop_reason_;
  std::map<int, std::string> table_;
  bool table_complete_ = false;
  bool everybody_left_ = false;
};

}  // namespace plait
