#include "comm/mpi/mpi_requests.h"

#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"

namespace plait {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 30;
constexpr int kFirstTests = 1000;
constexpr double kSpinS = 2e-3;
// A sleep takes this part of the time waited so far, within these limits: what waits long, as the
// ranks of an idle server do, costs no core.
constexpr double kSleepPart = 0.02;
constexpr double kShortestSleepUs = 50;
constexpr double kLongestSleepUs = 1000;

}  // namespace

void pause_between_looks(bool may_spin, double elapsed_s) {
  if (!may_spin || elapsed_s > kSpinS) {
    usleep(static_cast<useconds_t>(
        std::clamp(elapsed_s * 1e6 * kSleepPart, kShortestSleepUs, kLongestSleepUs)));
  }
}

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) {
    return;
  }
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw_error(ErrorCode::kComm, "{} failed: {}", what, text);
}

MpiRequests::~MpiRequests() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL) {
      if (is_recv_[i]) {
        MPI_Cancel(&requests_[i]);
      }
      MPI_Request_free(&requests_[i]);
    }
  }
}

void MpiRequests::add(int peer, bool is_recv, MPI_Request request) {
  requests_.push_back(request);
  peers_.push_back(peer);
  is_recv_.push_back(is_recv);
}

void MpiRequests::send(int peer, const std::byte* data, int64_t bytes, int tag) {
  for (int64_t begin = 0; begin == 0 || begin < bytes; begin += kPieceBytes) {
    const auto piece = static_cast<int>(std::min(kPieceBytes, bytes - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(data + begin, piece, MPI_BYTE, peer, tag, comm_, &request), "MPI_Isend");
    add(peer, false, request);
  }
}

void MpiRequests::recv(int peer, std::byte* data, int64_t bytes, int tag) {
  for (int64_t begin = 0; begin == 0 || begin < bytes; begin += kPieceBytes) {
    const auto piece = static_cast<int>(std::min(kPieceBytes, bytes - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(data + begin, piece, MPI_BYTE, peer, tag, comm_, &request), "MPI_Irecv");
    add(peer, true, request);
  }
}

bool MpiRequests::test() {
  int all_done = 0;
  check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all_done,
                        MPI_STATUSES_IGNORE),
            "MPI_Testall");
  return all_done != 0;
}

MpiWaitResult MpiRequests::wait(const MpiWait& options) {
  for (int i = 0; i < (options.may_spin ? kFirstTests : 2); ++i) {
    if (test()) {
      return MpiWaitResult::kDone;
    }
  }
  const Deadline deadline = Deadline::after_s(options.deadline_s);
  for (;;) {
    if (test()) {
      return MpiWaitResult::kDone;
    }
    if (options.stopped()) {
      return MpiWaitResult::kStopped;
    }
    const double elapsed_s = deadline.elapsed_s();
    if (elapsed_s > options.deadline_s) {
      return MpiWaitResult::kDeadline;
    }
    pause_between_looks(options.may_spin, elapsed_s);
  }
}

std::vector<int> MpiRequests::pending_peers() const {
  // MPI_Testall leaves all requests alive until every one is complete, so each is asked.
  std::vector<int> result;
  for (size_t i = 0; i < requests_.size(); ++i) {
    int is_done = 0;
    MPI_Request_get_status(requests_[i], &is_done, MPI_STATUS_IGNORE);
    if (is_done == 0) {
      result.push_back(peers_[i]);
    }
  }
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace plait
