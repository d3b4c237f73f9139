# Two things that no test of the bits can see, read from the object files of the vector kernels:
# the prefetch instructions are there, and no name is one that the linker may share with files that
# run on every processor (weak or unique), which would carry these instructions to them.

# Lines that one turn of a format's loops reads, headers included, summed over a file's formats.
set(lines_blocks 19)  # Q4_0 1+4, Q8_0 1+8, MXFP4 1+4
set(lines_k45 17)     # Q4_K 4+4, Q5_K 4+5
set(lines_k236 27)    # Q6_K 1+13, Q2_K 1+5, Q3_K 1+3+3
set(lines_floats 16)  # BF16 4, F16 4, F32 8
set(passes 4)         # compiled for 1, 2, 4 and 8 tokens

list(LENGTH OBJECTS count)
if(NOT count EQUAL 8)
  message(FATAL_ERROR "expected 8 object files, got ${count}: ${OBJECTS}")
endif()

foreach(object IN LISTS OBJECTS)
  if(NOT object MATCHES "(avx[0-9]+)_([a-z0-9]+)\\.cc")
    message(FATAL_ERROR "unexpected object ${object}")
  endif()
  math(EXPR expected "${lines_${CMAKE_MATCH_2}} * ${passes}")

  execute_process(COMMAND ${OBJDUMP} -d ${object} OUTPUT_VARIABLE code COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "prefetcht0" found "${code}")
  list(LENGTH found found)
  if(found LESS expected)
    message(FATAL_ERROR "${object}: ${found} prefetcht0, expected at least ${expected}")
  endif()

  execute_process(COMMAND ${NM} ${object} OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "[^\n]* [WwVvu] [^\n]*" shared "${names}")
  if(shared)
    message(FATAL_ERROR "${object}: a name that the linker may share: ${shared}")
  endif()
  message(STATUS "${object}: ${found} prefetcht0, no shared names")
endforeach()
