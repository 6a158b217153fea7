#include "comm/reduce.h"

#include "base/cpu_info.h"
#include "base/error.h"

namespace plait {
namespace {

using ReduceFunction = void (*)(const ReduceArgs&);

ReduceFunction choose() {
#if defined(__x86_64__)
  if (cpu_info().avx512) {
    return internal::reduce_avx512;
  }
  if (cpu_info().avx2) {
    return internal::reduce_avx2;
  }
#endif
  return internal::reduce_plain;
}

}  // namespace

void reduce_in_order(const ReduceArgs& args) {
  static const ReduceFunction chosen = choose();
  CHECK(!args.sources.empty());
  chosen(args);
}

}  // namespace plait
