// The MPI library's own MPI_Allreduce (f32, in place), for all_reduce_bench to compare with. Prints
// "BYTES SECONDS" lines.
#include <mpi.h>

#include <cstdio>
#include <vector>

#include "all_reduce_loop.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<float> buffer(plait::bench::kMaxBytes / sizeof(float), 0.0F);
  for (int64_t bytes = plait::bench::kMinBytes; bytes <= plait::bench::kMaxBytes; bytes *= 2) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto count = static_cast<int>(bytes / 4);
    const double best = plait::bench::best_call_s(bytes, [&] {
      MPI_Allreduce(MPI_IN_PLACE, buffer.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
    if (rank == 0) {
      std::printf("%lld %.9f\n", static_cast<long long>(bytes), best);
    }
  }
  MPI_Finalize();
  return 0;
}
