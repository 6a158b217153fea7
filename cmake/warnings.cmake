# Warnings. All of them are errors with PLAIT_WERROR, which is on in CI. Left out on purpose:
# -Wsign-conversion fires on every v[i] with a signed index; -Wdouble-promotion fires wherever a
# kernel accumulates in double, which is wanted; -Wold-style-cast fires on vector types, which have
# no other cast (clang-tidy watches the rest); g++ 12's -Wrestrict misreads std::string's operator+.
option(PLAIT_WERROR "Treat warnings as errors" "$ENV{CI}")

target_compile_options(plait_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wcast-align
  -Wextra-semi -Wnon-virtual-dtor -Woverloaded-virtual -Werror=return-type
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:GNU>:-Wlogical-op>
  # clang reads a lock annotation where the code has one; g++ has no such check.
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<BOOL:${PLAIT_WERROR}>:-Werror>)
# ThreadSanitizer does not model std::atomic_thread_fence, and g++ says so at each one.
if(PLAIT_SANITIZE MATCHES "thread")
  target_compile_options(plait_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-error=tsan>)
endif()
