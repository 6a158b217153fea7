// The tasks of collectives that HCCL reports as failed or as having waited too long
// (task_exception_handler, and aicpu_communicator where collectives run on the AI CPU).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/log_scan.h"

namespace plait {

struct FailedTask {
  std::string group;  // the communicator
  int64_t group_size = -1;
  int rank = -1;          // of the job if its process told that, else of the group
  std::string operation;  // "AllReduce"
  int64_t index = -1;     // which operation of the group; -1 if not told
  int64_t count = -1;     // elements
  std::string type;       // "float32"
  bool timed_out = false;
  double time = -1;
  std::string process;
};

// The first one of each process in each group. Left out are groups whose name different groups of
// processes may share ("group_name_3" counts those of one process), unless all ranks are in it.
std::vector<FailedTask> read_failed_tasks(const std::vector<ScannedFile>& files);

// A line for each operation in which ranks waited whose time-outs lie further apart than they wait
// (HCCL_EXEC_TIMEOUT, or a minute if no log tells it): "plait tasks: ranks [1] came to ...".
std::string describe_late_ranks(const std::vector<ScannedFile>& files);

}  // namespace plait
