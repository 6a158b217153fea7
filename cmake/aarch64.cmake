# Toolchain file of scripts/check-aarch64: compiles for the other kind of host, with Debian's
# g++-aarch64-linux-gnu. The third-party headers are the same for both, and the compiler looks into
# /usr/include last, so its own C library comes first.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# Packages of this machine are found for their headers alone; nothing is linked against them.
set(CMAKE_PREFIX_PATH /usr/lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/cmake)
set(CMAKE_SIZEOF_VOID_P 8)
# OpenSSL keeps two of its headers, which say how it was built, in a folder of the architecture.
set(CMAKE_CXX_FLAGS_INIT "-idirafter /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu")
# These are found by their libraries only.
set(SQLite3_LIBRARY sqlite3)
set(PROMETHEUS_CORE prometheus-cpp-core)
set(ZLIB_LIBRARY z)
# A folder with aarch64's libraries of fmt, Highway and GoogleTest: tests can be linked and run.
if(DEFINED ENV{PLAIT_AARCH64_ROOT})
  set(libraries $ENV{PLAIT_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu)
  list(PREPEND CMAKE_PREFIX_PATH ${libraries}/cmake)
  set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${libraries})
  set(CMAKE_CROSSCOMPILING_EMULATOR
    qemu-aarch64-static;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=${libraries})
endif()
