# -D READELF=... -D PROGRAM=...: fails if the program needs the driver's library or another of
# CUDA's, which would keep it from starting where they are not installed.
execute_process(COMMAND ${READELF} -d ${PROGRAM} OUTPUT_VARIABLE dynamic RESULT_VARIABLE result)
if(NOT result EQUAL 0 OR NOT dynamic MATCHES "NEEDED.*libc\\.so")
  message(FATAL_ERROR "cannot read what ${PROGRAM} needs")
endif()
if(dynamic MATCHES "NEEDED[^\n]*(libcuda|libcudart|libcublas)[^\n]*")
  message(FATAL_ERROR "${PROGRAM} needs ${CMAKE_MATCH_0}")
endif()
