#include "comm/reduce_impl.h"

namespace plait::internal {

void reduce_avx2(const ReduceArgs& args) {
  reduce_all(args);
}

}  // namespace plait::internal
