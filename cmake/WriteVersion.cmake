# A script: writes OUT from apps/slimpack/version.cpp.in, where it differs.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --match "" OUTPUT_VARIABLE COMMIT
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(COMMIT "unknown") # no git, or an archive of the source
endif()
configure_file(${SOURCE}/apps/slimpack/version.cpp.in ${OUT} @ONLY)
