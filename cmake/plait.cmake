# Compiler flags and the two functions that every folder uses.

add_library(plait_options INTERFACE)
target_include_directories(plait_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
include(${CMAKE_CURRENT_LIST_DIR}/warnings.cmake)
if(PLAIT_SANITIZE)
  # A finding ends the process: a test that prints one and passes proves nothing.
  target_compile_options(plait_options INTERFACE
    -fsanitize=${PLAIT_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(plait_options INTERFACE -fsanitize=${PLAIT_SANITIZE})
  target_compile_definitions(plait_options INTERFACE PLAIT_SANITIZED)
endif()
# What files full of vector intrinsics are compiled with, beside the instruction set: the checks of
# UBSan that ask of every intrinsic whether it may have its operand triple their compile time.
set(PLAIT_VECTOR_OPTIONS)
if(PLAIT_SANITIZE MATCHES "undefined")
  set(PLAIT_VECTOR_OPTIONS -fno-sanitize=null,alignment,object-size,pointer-overflow)
endif()
find_package(Threads REQUIRED)
target_link_libraries(plait_options INTERFACE Threads::Threads)
find_package(fmt REQUIRED)
include(${CMAKE_CURRENT_LIST_DIR}/precompiled.cmake)
plait_precompiled(plait_common_headers)
set(PLAIT_COLD_OPTIONS $<$<CONFIG:Release>:-O1> $<$<CONFIG:Debug>:-O0>)
plait_precompiled(plait_cold_headers OPTIONS ${PLAIT_COLD_OPTIONS})

# plait_library(NAME [COLD] SOURCES a.cc b.cc LINK plait_base): one static library per folder. COLD:
# no loop in it takes a noticeable time when plait runs, so that it is cheaper to compile with -O1,
# and with -O0 where it is sanitised.
# A folder whose flags differ names its own PRECOMPILED headers, or none.
function(plait_library name)
  cmake_parse_arguments(ARG "COLD" "PRECOMPILED" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(ARG_COLD)
    target_compile_options(${name} PRIVATE ${PLAIT_COLD_OPTIONS})
    set(ARG_PRECOMPILED plait_cold_headers)
  elseif(NOT ARG_PRECOMPILED)
    set(ARG_PRECOMPILED plait_common_headers)
  endif()
  if(NOT ARG_PRECOMPILED STREQUAL "none")
    plait_use_precompiled(${name} ${ARG_PRECOMPILED})
  endif()
  target_link_libraries(${name} PUBLIC plait_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
endfunction()

# plait_embed(FILE OUTPUT.cc HEADER h FUNCTION f): generates a .cc whose f() returns the text of the
# file.
function(plait_embed file output)
  cmake_parse_arguments(ARG "" "HEADER;FUNCTION" "" ${ARGN})
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake)
  add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${output}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${CMAKE_CURRENT_BINARY_DIR}/${output}
      -DHEADER=${ARG_HEADER} -DFUNCTION=${ARG_FUNCTION} -P ${script}
    DEPENDS ${file} ${script} VERBATIM)
endfunction()

# What every test runs with. The suppressions name third-party libraries only.
set(support ${PROJECT_SOURCE_DIR}/tests/support)
set(PLAIT_TEST_ENVIRONMENT
  "PLAIT_TEST_DATA=${PROJECT_SOURCE_DIR}/tests/data"
  "ASAN_OPTIONS=detect_stack_use_after_return=1"
  "LSAN_OPTIONS=suppressions=${support}/lsan.supp:print_suppressions=0"
  "TSAN_OPTIONS=suppressions=${support}/tsan.supp:second_deadlock_stack=1"
  "UBSAN_OPTIONS=print_stacktrace=1")

# plait_test(NAME SOURCES x_test.cc LINK plait_base [LABELS slow] [TIMEOUT 120]): one ctest entry
# per test binary; the binary takes all GoogleTest flags. Label slow: left out of the sanitised
# runs; label mpi: runs alone, since it starts processes of its own; label threads: also built (as
# part of the target thread_tests) and run with ThreadSanitizer.
add_custom_target(thread_tests)
function(plait_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  plait_use_precompiled(${name} plait_test_headers)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} plait_gtest)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "${PLAIT_TEST_ENVIRONMENT}")
  if("mpi" IN_LIST ARG_LABELS)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(thread_tests ${name})
  endif()
endfunction()

# plait_mpi_test(NAME SOURCES x_test.cc LINK plait_comm_mpi RANKS 2 4 [LABELS slow] [TIMEOUT 120]):
# the binary runs under mpirun, once for each number of ranks: ctest entries NAME_2, NAME_4. It
# needs a main of its own (MPI_Init before the tests), so GoogleTest's is not linked.
function(plait_mpi_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;RANKS;LABELS" ${ARGN})
  find_program(MPIRUN mpirun REQUIRED)
  add_executable(${name} ${ARG_SOURCES})
  plait_use_precompiled(${name} plait_test_headers)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set(as_root OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
  foreach(ranks IN LISTS ARG_RANKS)
    add_test(NAME ${name}_${ranks}
      COMMAND ${MPIRUN} -n ${ranks} --oversubscribe $<TARGET_FILE:${name}>
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name}_${ranks} PROPERTIES TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL ON
      LABELS "mpi;${ARG_LABELS}"
      ENVIRONMENT "${PLAIT_TEST_ENVIRONMENT};${as_root}")
  endforeach()
endfunction()
