# One interface target with the flags that every library of Ebb is compiled with.
add_library(ebb_flags INTERFACE)
target_compile_options(ebb_flags INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers -fno-math-errno -ffp-contract=off)
target_include_directories(ebb_flags INTERFACE ${CMAKE_SOURCE_DIR})

if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC 12 reports false positives in Abseil's InlinedVector and in sanitized standard headers.
  target_compile_options(ebb_flags INTERFACE -Wno-maybe-uninitialized)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(ebb_flags INTERFACE -Wthread-safety)
endif()

if(EBB_SANITIZE)
  target_compile_options(ebb_flags INTERFACE -fsanitize=${EBB_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(ebb_flags INTERFACE -fsanitize=${EBB_SANITIZE})
  if(EBB_SANITIZE MATCHES thread)
    target_compile_definitions(ebb_flags INTERFACE EBB_TSAN=1)
    # GCC warns that it does not instrument atomic_thread_fence, which Debian's headers use.
    target_compile_options(ebb_flags INTERFACE -Wno-tsan)
  endif()
endif()

if(EBB_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "EBB_FUZZ needs clang++: use the preset 'fuzz' (cmake --preset fuzz)")
  endif()
  target_compile_options(ebb_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(EBB_MOLD mold)
if(EBB_MOLD)
  target_link_options(ebb_flags INTERFACE -fuse-ld=mold)
endif()
find_program(EBB_CCACHE ccache)
if(EBB_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${EBB_CCACHE})
endif()
