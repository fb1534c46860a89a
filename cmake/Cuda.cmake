# The CUDA toolkit, for the kernels of device/cuda: its compiler and static runtime. cuDNN and cuBLASLt are only
# needed by headers here; their libraries are opened when the device is. EBB_HAVE_CUDA says whether there is one.
set(EBB_CUDA AUTO CACHE STRING "Build the CUDA device: AUTO (where the toolkit is), ON or OFF")
set_property(CACHE EBB_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT EBB_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "EBB_CUDA is '${EBB_CUDA}'; it must be AUTO, ON or OFF")
endif()
set(EBB_HAVE_CUDA OFF)
# Sanitizers and fuzzers are about host code; the test double, which needs no toolkit, is built with them.
if(EBB_CUDA STREQUAL ON OR (EBB_CUDA STREQUAL AUTO AND NOT EBB_SANITIZE AND NOT EBB_FUZZ))
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90")  # and PTX of compute_90 for what comes later
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # CMake 3.25 does not know how nvcc is asked for C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
      list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
    endif()
    find_package(CUDAToolkit 12.4 QUIET)
  endif()
  if(CUDAToolkit_FOUND)
    set(EBB_HAVE_CUDA ON)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    message(STATUS "CUDA device: toolkit ${CUDAToolkit_VERSION}, ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(EBB_CUDA STREQUAL ON)
    message(FATAL_ERROR "EBB_CUDA=ON needs the CUDA toolkit 12.4 or later with nvcc on PATH (or "
                        "-DCMAKE_CUDA_COMPILER=.../nvcc); use AUTO or OFF to build without")
  else()
    message(STATUS "CUDA device: not built, no CUDA toolkit (nvcc) on PATH")
  endif()
endif()

# cuDNN through cudnn-frontend: headers only, of the Python package nvidia-cudnn-frontend. Without them the device is
# built, and refuses convolutions by name.
set(EBB_CUDNN_FRONTEND "" CACHE PATH "The folder of cudnn_frontend.h; empty: that of this checkout's .venv")
set(EBB_HAVE_CUDNN OFF)
if(EBB_HAVE_CUDA)
  file(GLOB folders ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/include)
  find_path(EBB_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${EBB_CUDNN_FRONTEND} ${folders} NO_CACHE)
  find_path(EBB_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CACHE)
  if(EBB_CUDNN_FRONTEND_INCLUDE AND EBB_CUDNN_INCLUDE)
    set(EBB_HAVE_CUDNN ON)
    add_library(ebb_cudnn INTERFACE)
    target_include_directories(ebb_cudnn SYSTEM INTERFACE ${EBB_CUDNN_FRONTEND_INCLUDE} ${EBB_CUDNN_INCLUDE})
    message(STATUS "CUDA device: cuDNN by ${EBB_CUDNN_FRONTEND_INCLUDE}")
  elseif(EBB_CUDNN_FRONTEND)
    message(FATAL_ERROR "EBB_CUDNN_FRONTEND is ${EBB_CUDNN_FRONTEND}: there is no cudnn_frontend.h in it, or no "
                        "cudnn.h in the toolkit's include folder")
  elseif(EBB_CUDA STREQUAL ON)
    message(FATAL_ERROR "EBB_CUDA=ON needs cuDNN: cudnn.h in the toolkit's include folder, and the headers of "
                        "cudnn-frontend (scripts/setup --cuda, or -DEBB_CUDNN_FRONTEND=...); use AUTO to build without")
  else()
    message(WARNING "CUDA device: built WITHOUT cuDNN, so that it refuses convolutions: cudnn.h or the headers of "
                    "cudnn-frontend are missing (scripts/setup --cuda fetches the latter)")
  endif()
endif()
