# ebb_library(NAME graph SRCS a.cc b.cc DEPS ebb_base absl::status PRIVATE_DEPS ZLIB::ZLIB)
# makes the static library ebb_graph. DEPS are what its headers need; they are the layers' arrows.
function(ebb_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(ebb_${ARG_NAME} STATIC ${ARG_SRCS})
    target_link_libraries(ebb_${ARG_NAME} PUBLIC ebb_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
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
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    SKIP_REGULAR_EXPRESSION "\\[  PASSED  \\] 0 tests\\.\n\\[  SKIPPED \\] [0-9]+ tests?, listed below:\n(\\[  SKIPPED \\] [^\n]*\n?)+$"
    ENVIRONMENT "OMP_WAIT_POLICY=passive;${ARG_ENVIRONMENT}")
endfunction()
