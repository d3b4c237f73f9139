# The CUDA backend: whether the kernels are compiled for GPUs too. Sets MOETIER_CUDA_ENABLED and, if
# so, MOETIER_CUDA_BUILT_ARCHITECTURES. Their tests run on the host's emulator in every build.
set(MOETIER_CUDA AUTO CACHE STRING "Compile the kernels for GPUs: AUTO (where nvcc is), ON or OFF")
set_property(CACHE MOETIER_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MOETIER_CUDA_ARCHITECTURES "" CACHE STRING
  "GPUs to compile for, as CMake spells them (90-real); empty: all that this project supports")

# Each with the nvcc that knows it first. PTX of 9.0 serves 10.x, and 12.x where nvcc does not know
# it; that of 12.0 GPUs to come.
set(cuda_architectures 80-real 11.0 86-real 11.1 89-real 11.8 90-real 11.8 90-virtual 11.8
    120-real 12.8 120-virtual 12.8)

# nvcc's path in `result`, or the reason why there is none, starting with "no".
function(moetier_find_nvcc result)
  if(DEFINED ENV{CUDACXX})
    if(EXISTS "$ENV{CUDACXX}")
      set(${result} "$ENV{CUDACXX}" PARENT_SCOPE)
    else()
      set(${result} "no nvcc found" PARENT_SCOPE)
    endif()
    return()
  endif()
  find_program(MOETIER_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
               PATH_SUFFIXES bin)
  mark_as_advanced(MOETIER_NVCC)
  if(MOETIER_NVCC)
    set(${result} "${MOETIER_NVCC}" PARENT_SCOPE)
  else()
    set(${result} "no nvcc found" PARENT_SCOPE)
  endif()
endfunction()

set(MOETIER_CUDA_ENABLED OFF)
if(NOT MOETIER_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "MOETIER_CUDA=${MOETIER_CUDA}: must be AUTO, ON or OFF")
elseif(MOETIER_CUDA STREQUAL "OFF")
  set(nvcc "no: MOETIER_CUDA=OFF")
elseif(MOETIER_SANITIZE OR MOETIER_FUZZ)
  set(nvcc "no: nvcc takes no sanitizer")
else()
  moetier_find_nvcc(nvcc)
endif()

if(nvcc MATCHES "^no")
  string(REGEX REPLACE "^no: " "" reason "${nvcc}")
  if(MOETIER_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MOETIER_CUDA=ON, but ${reason}: set CUDACXX to nvcc's path, or use AUTO")
  endif()
  message(STATUS "CUDA backend: off (${reason})")
  set(MOETIER_CUDA_OFF_REASON "${reason}")
  return()
endif()

set(CMAKE_CUDA_COMPILER "${nvcc}")
set(CMAKE_CUDA_ARCHITECTURES OFF)  # each target says its own
enable_language(CUDA)
if(MOETIER_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${MOETIER_CCACHE})
endif()

if(MOETIER_CUDA_ARCHITECTURES)
  set(MOETIER_CUDA_BUILT_ARCHITECTURES ${MOETIER_CUDA_ARCHITECTURES})
else()
  set(MOETIER_CUDA_BUILT_ARCHITECTURES "")
  while(cuda_architectures)
    list(POP_FRONT cuda_architectures architecture since)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL since)
      list(APPEND MOETIER_CUDA_BUILT_ARCHITECTURES ${architecture})
    endif()
  endwhile()
endif()
set(MOETIER_CUDA_ENABLED ON)
string(REPLACE ";" " " architectures "${MOETIER_CUDA_BUILT_ARCHITECTURES}")
message(STATUS "CUDA backend: on (nvcc ${CMAKE_CUDA_COMPILER_VERSION}; ${architectures})")
