# Toolchain file of scripts/check-aarch64: compiles the libraries for the other kind of host, with
# Debian's g++-aarch64-linux-gnu. The third-party headers are the same for both, and the compiler
# looks into /usr/include last, so its own C library comes first.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# Packages of this machine are found for their headers alone; nothing is linked against them.
set(CMAKE_PREFIX_PATH /usr/lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/cmake)
set(CMAKE_SIZEOF_VOID_P 8)
