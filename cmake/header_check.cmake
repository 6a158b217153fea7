# Target header_check: every header of src/ compiles alone. A header with a .cc of the same name is
# proven by that file, which includes it first (tests/tidy sees to that) and is compiled alone by
# lint, so only the others are compiled here. Headers of one instruction set are left out: they need
# that set's flags.
file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR}/src CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/src/*.h)
set(sources)
foreach(header IN LISTS headers)
  string(REGEX REPLACE "\\.h$" ".cc" twin ${header})
  if(EXISTS ${PROJECT_SOURCE_DIR}/src/${twin} OR header MATCHES "avx|neon|amx")
    continue()
  endif()
  if(header MATCHES "^comm/mpi/" AND NOT TARGET MPI::MPI_CXX)
    continue()
  endif()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/header_check/${header}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n" @ONLY)
  list(APPEND sources ${source})
endforeach()
add_library(header_check OBJECT EXCLUDE_FROM_ALL ${sources})
set_target_properties(header_check PROPERTIES UNITY_BUILD OFF)
# A header meant for one .cc file may hold functions that only that file calls.
target_compile_options(header_check PRIVATE -O0 -Wno-unused-function)
target_link_libraries(header_check PRIVATE plait_base
  $<$<TARGET_EXISTS:MPI::MPI_CXX>:MPI::MPI_CXX>)
