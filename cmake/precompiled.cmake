# Headers that nearly every file reads, parsed once: up to a third of a file's compile time. Targets
# with the same flags share them. Lint does without and finds a forgotten #include.
option(PLAIT_PCH "Precompile common headers" ON)
if(PLAIT_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 forgets that a precompiled header was a system header, and finds fault with libstdc++.
  target_compile_options(plait_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
endif()

set(PLAIT_COMMON_HEADERS <algorithm> <array> <charconv> <cmath> <cstdint> <cstring> <filesystem>
  <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view> <utility> <vector>
  <fmt/format.h>)

# plait_precompiled(NAME LINK x HEADERS <a> OPTIONS -O1): what plait_use_precompiled() takes.
function(plait_precompiled name)
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS;OPTIONS" ${ARGN})
  if(PLAIT_PCH)
    file(CONFIGURE OUTPUT ${name}.cc CONTENT "" @ONLY)
    add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
    target_link_libraries(${name} PRIVATE plait_options fmt::fmt ${ARG_LINK})
    target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
    target_precompile_headers(${name} PRIVATE ${PLAIT_COMMON_HEADERS} ${ARG_HEADERS})
  endif()
endfunction()

function(plait_use_precompiled target name)
  if(PLAIT_PCH)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()
