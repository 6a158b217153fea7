// The options of a Slurm batch script's "#SBATCH" lines. Internal to readers/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

// A variable that Slurm sets for the job, and the line whose option gives it.
struct BatchVariable {
  std::string name;
  int64_t value = 0;
  int line = 0;
};

// Of the lines before the first command: Slurm reads no further.
std::vector<BatchVariable> read_batch_header(std::string_view text);

}  // namespace plait
