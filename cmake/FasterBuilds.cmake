# Builds are faster with ccache and mold, where they are installed, and with fewer collections in the
# compiler. None of them changes what a build makes.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without this ccache does not keep what was compiled with a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
                                  CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

# GCC first collects its garbage at 128 MB, which the headers alone fill: it spends 7 % of a test's
# compilation there.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(--param=ggc-min-heapsize=400000)  # KB
endif()

include(CheckLinkerFlag)
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  check_linker_flag(CXX -fuse-ld=mold MOLD_WORKS)
  if(MOLD_WORKS)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
