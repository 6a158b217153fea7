#include "comm/reduce_impl.h"

namespace plait::internal {

void reduce_plain(const ReduceArgs& args) {
  reduce_all(args);
}

}  // namespace plait::internal
