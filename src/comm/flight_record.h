// The flight record: the last operations of each rank in a file that outlives the process, however
// it ends. A ring of kFlightEntries records in shared memory of the file
// <folder>/flight-rank<rank>.bin; the kernel keeps what was stored before a kill -9. `plait doctor
// logs <folder>` reads it. Costs two readings of the coarse clock and a cache line an operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/op_state.h"

namespace plait {

constexpr int kFlightEntries = 1024;
constexpr int kFlightGroups = 128;

// The file is a FlightHeader, kFlightGroups FlightGroups, kFlightEntries FlightEntries, in the
// byte order of the host.
struct FlightHeader {
  char magic[8];  // "PLAITFR1"
  int32_t rank;   // in the world
  int32_t num_groups;
  int64_t pid;
  char host[104];
};

struct FlightGroup {
  int32_t size;
  char name[40];
  char ranks[84];  // "0,2,4,6"; ends in "+" where it was too long
};

struct FlightEntry {
  std::atomic<uint64_t> serial;  // from 1 in the order of begin; 0: never used
  uint64_t sequence;             // of the group
  uint64_t signature;            // Operation::signature(): must be equal on all ranks; 0: not known
  int64_t bytes;
  int64_t begin_ns;             // since 1970
  std::atomic<int64_t> end_ns;  // 0: still running
  int32_t group;
  int32_t kind;  // OpKind
  int64_t reserved;
};
static_assert(sizeof(FlightHeader) == 128 && sizeof(FlightGroup) == 128 &&
              sizeof(FlightEntry) == 64);

// One rank's record.
class FlightRecorder {
 public:
  // The recorder of a rank in the folder that was set last; null if none was, or if the file
  // cannot be made (said once in the log: a run goes on without it). Lives as long as the process.
  static FlightRecorder* of_rank(int rank);

  // Index of a group; -1 when the table is full. `members`: ranks in the world.
  int add_group(const std::string& name, const std::vector<int>& members);

  struct Begin {
    int group = 0;
    OpKind kind = OpKind::kNone;
    uint64_t sequence = 0;
    uint64_t signature = 0;
    int64_t bytes = 0;
  };
  // Thread-safe.
  FlightEntry* begin(const Begin& operation);
  static void end(FlightEntry& entry);

 private:
  FlightRecorder(int rank, char* memory);
  static FlightRecorder* open(int rank, const std::string& folder);

  FlightHeader* header_;
  FlightGroup* groups_;
  FlightEntry* entries_;
  std::atomic<uint64_t> next_{0};
};

// Where recorders that are opened from now on write; empty: none. The folder is made. Process-wide:
// groups of every world of the process record.
void set_flight_folder(const std::string& folder);

// A record as read back.
struct FlightLog {
  int rank = 0;
  int64_t pid = 0;
  std::string host;
  struct Group {
    std::string name;
    std::vector<int> ranks;  // empty if not known
    int size = 0;
  };
  struct Operation {
    uint64_t sequence = 0;
    uint64_t signature = 0;
    int64_t bytes = 0;
    double begin = 0;  // seconds since 1970
    double end = 0;    // 0: was running when the record stopped
    int group = 0;     // index of `groups`
    OpKind kind = OpKind::kNone;
  };
  std::vector<Group> groups;
  std::vector<Operation> operations;  // in the order of begin
};

bool is_flight_log(std::string_view bytes);
// Tolerates a cut or damaged file: what makes no sense is left out. Empty operations if nothing
// does. CHECK: is_flight_log(bytes).
FlightLog read_flight_log(std::string_view bytes);

}  // namespace plait
