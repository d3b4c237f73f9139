# -D PROGRAMS=a;b -D FOLDER=... [-D STRIP=...]: copies the programs to the folder with the shared
# libraries that they need, so that it can be carried to a machine that lacks these.
foreach(program ${PROGRAMS})
  file(COPY ${program} DESTINATION ${FOLDER})
  if(STRIP)
    get_filename_component(name ${program} NAME)
    execute_process(COMMAND ${STRIP} ${FOLDER}/${name})
  endif()
endforeach()
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${PROGRAMS}
  RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR unknown
  # What every machine with a C++ program has, and must have of its own.
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|gcc_s|stdc\\+\\+)\\.so")
foreach(library ${libraries})
  file(COPY ${library} DESTINATION ${FOLDER} FOLLOW_SYMLINK_CHAIN)
endforeach()
