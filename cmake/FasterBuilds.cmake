# ccache and mold where they are installed; the build is the same without them.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without this ccache does not keep what was compiled with a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
                                  CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

include(CheckLinkerFlag)
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  check_linker_flag(CXX -fuse-ld=mold MOLD_WORKS)
  if(MOLD_WORKS)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
