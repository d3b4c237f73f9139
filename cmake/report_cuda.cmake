# Says whether a CUDA toolkit is there. Nothing uses it yet, so nothing depends on it.
find_program(MOETIER_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
             PATH_SUFFIXES bin)
mark_as_advanced(MOETIER_NVCC)
if(MOETIER_NVCC)
  execute_process(COMMAND ${MOETIER_NVCC} --version OUTPUT_VARIABLE nvcc_output ERROR_QUIET
                  RESULT_VARIABLE nvcc_result)
  set(cuda_version "of unknown version")
  if(nvcc_result EQUAL 0 AND nvcc_output MATCHES "release ([0-9]+\\.[0-9]+)")
    set(cuda_version ${CMAKE_MATCH_1})
  endif()
  message(STATUS "CUDA toolkit ${cuda_version} found at ${MOETIER_NVCC}: not used yet")
endif()
