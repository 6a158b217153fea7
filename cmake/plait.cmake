# Compiler flags and the two functions that every folder uses.

add_library(plait_options INTERFACE)
target_include_directories(plait_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(plait_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror=return-type)
if(PLAIT_SANITIZE)
  target_compile_options(plait_options INTERFACE -fsanitize=${PLAIT_SANITIZE})
  target_link_options(plait_options INTERFACE -fsanitize=${PLAIT_SANITIZE})
endif()
find_package(Threads REQUIRED)
target_link_libraries(plait_options INTERFACE Threads::Threads)

# plait_library(NAME SOURCES a.cc b.cc LINK plait_base): one static library per folder.
function(plait_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC plait_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
endfunction()

# plait_test(NAME SOURCES x_test.cc LINK plait_base [LABELS slow] [TIMEOUT 120]): one ctest entry
# per test binary; the binary takes all GoogleTest flags.
function(plait_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} plait_gtest)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "PLAIT_TEST_DATA=${PROJECT_SOURCE_DIR}/tests/data")
endfunction()
