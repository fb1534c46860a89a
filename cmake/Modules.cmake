# The headers that most files include, compiled once: parsing them is half the time of a full build. Every
# file still includes what it uses, since builds without (the default, and clang's) must pass as well.
option(EBB_PCH "Precompile the most included headers (GCC)" OFF)
set(EBB_PCH_BASE
  <algorithm> <array> <cmath> <cstdint> <cstring> <deque> <functional> <limits> <map> <memory> <optional> <string>
  <utility> <vector> <absl/container/flat_hash_map.h> <absl/container/inlined_vector.h> <absl/status/statusor.h>
  <absl/strings/match.h> <absl/strings/numbers.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
  <absl/strings/str_join.h> <absl/strings/str_split.h> <absl/strings/strip.h> <absl/time/time.h> <absl/types/span.h>)

# ebb_pch(NAME wire HEADERS <a.h> DEPS ebb_proto) makes a set of precompiled headers that targets use by
# ebb_use_pch(TARGET wire). Their own flags must be those of ebb_flags.
function(ebb_pch)
  cmake_parse_arguments(ARG "" "NAME" "HEADERS;DEPS" ${ARGN})
  if(EBB_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    file(WRITE ${CMAKE_BINARY_DIR}/ebb_pch_${ARG_NAME}.cc "")
    add_library(ebb_pch_${ARG_NAME} OBJECT ${CMAKE_BINARY_DIR}/ebb_pch_${ARG_NAME}.cc)
    target_link_libraries(ebb_pch_${ARG_NAME} PRIVATE ebb_flags ${ARG_DEPS})
    target_precompile_headers(ebb_pch_${ARG_NAME} PRIVATE ${ARG_HEADERS})
    # GCC 12 forgets that a precompiled header is a system one, and warns falsely inside it (its bug 105651).
    target_compile_options(ebb_flags INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
                           -Wno-restrict)
  endif()
endfunction()
function(ebb_use_pch target name)
  if(TARGET ebb_pch_${name})
    target_precompile_headers(${target} REUSE_FROM ebb_pch_${name})
  endif()
endfunction()
ebb_pch(NAME base HEADERS ${EBB_PCH_BASE} DEPS absl::status absl::statusor)

# ebb_library(NAME graph SRCS a.cc b.cc DEPS ebb_base absl::status PRIVATE_DEPS ZLIB::ZLIB)
# makes the static library ebb_graph. DEPS are what its headers need; they are the layers' arrows.
# PCH: its precompiled headers, "base" unless said otherwise; "none" where it has flags of its own.
function(ebb_library)
  cmake_parse_arguments(ARG "" "NAME;PCH" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(ebb_${ARG_NAME} STATIC ${ARG_SRCS})
    target_link_libraries(ebb_${ARG_NAME} PUBLIC ebb_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
    if(NOT ARG_PCH)
      set(ARG_PCH base)
    endif()
    ebb_use_pch(ebb_${ARG_NAME} ${ARG_PCH})
  else()
    add_library(ebb_${ARG_NAME} INTERFACE)
    target_link_libraries(ebb_${ARG_NAME} INTERFACE ebb_flags ${ARG_DEPS})
  endif()
endfunction()

# ebb_test(NAME graph_autodiff_test SRCS autodiff_test.cc DEPS ebb_graph LABELS unit TIMEOUT 60)
# makes one GoogleTest program and registers it with ctest under its labels. A test that exits
# with a GoogleTest skip in every case is shown by ctest as "Skipped".
function(ebb_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SRCS;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${ARG_NAME} PRIVATE ebb_flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${ARG_NAME} PRIVATE EBB_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                                 EBB_BINARY_DIR="${CMAKE_BINARY_DIR}")
  ebb_use_pch(${ARG_NAME} base)
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    SKIP_REGULAR_EXPRESSION "\\[  PASSED  \\] 0 tests\\.\n\\[  SKIPPED \\] [0-9]+ tests?, listed below:\n(\\[  SKIPPED \\] [^\n]*\n?)+$"
    ENVIRONMENT "OMP_WAIT_POLICY=passive;${ARG_ENVIRONMENT}")
endfunction()
