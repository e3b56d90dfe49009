# slimpack_module(NAME SOURCES a.cpp … DEPS base …): one folder below slimpack/, one static library.
# COLD …: more of its sources, which read or write files, in a room that is hot.
# slimpack_test(NAME SOURCES a_test.cpp … DEPS base …): one GoogleTest program, which ctest runs as a
# whole: most cases take less time than the start of a program. SHARDS n: as n parts, for programs
# that take long. MAIN library: where main() is, if not GoogleTest's.
# APART …: more of its sources, with helpers that are named as those of others.
# slimpack_cold(target …): what a run spends no time in. It compiles a third faster with less optimisation.
# slimpack_precompiled_by(target target …): programs and libraries that are neither.
# Headers that most sources include are compiled once: the first module (base) and the first test
# compile theirs for all others. Targets whose sources include other ones say PRECOMPILED <header> …,
# or PRECOMPILED_BY target for the headers of that target. Sources include them all the same
# (-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without).

# Programs are compiled as libraries are, and so can take the headers that these have compiled.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})

add_library(slimpack_flags INTERFACE)
target_include_directories(slimpack_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(slimpack_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
# GCC 12 takes a string's move for an overflow (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(slimpack_flags INTERFACE -Wno-array-bounds -Wno-restrict
                         -Wno-stringop-overflow -Wno-stringop-overread)
endif()
if(SLIMPACK_SANITIZE)
  target_compile_options(slimpack_flags INTERFACE -fsanitize=${SLIMPACK_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(slimpack_flags INTERFACE -fsanitize=${SLIMPACK_SANITIZE})
endif()

function(slimpack_deps target visibility)
  foreach(dep ${ARGN})
    if(TARGET slimpack_${dep})
      target_link_libraries(${target} ${visibility} slimpack_${dep})
    elseif(TARGET ${dep})
      target_link_libraries(${target} ${visibility} ${dep})
    else()
      message(FATAL_ERROR "${target} needs ${dep}, which is no target yet: check the order in "
                          "slimpack/CMakeLists.txt")
    endif()
  endforeach()
endfunction()

function(slimpack_cold)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()

set(slimpack_std_headers <algorithm> <array> <cmath> <cstdint> <deque> <filesystem> <functional>
    <map> <memory> <numeric> <optional> <ranges> <set> <span> <string> <string_view> <utility>
    <vector> <fmt/format.h> <nlohmann/json.hpp>)

function(slimpack_precompile target headers by first first_headers)
  if(headers)
    target_precompile_headers(${target} PRIVATE ${headers})
  elseif(by)
    target_precompile_headers(${target} REUSE_FROM ${by})
  elseif(TARGET ${first} AND NOT target STREQUAL first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${first_headers})
  endif()
endfunction()

function(slimpack_precompiled_by first)
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM ${first})
  endforeach()
endfunction()

function(slimpack_module name)
  cmake_parse_arguments(arg "" "PRECOMPILED_BY" "SOURCES;COLD;DEPS;PRECOMPILED" ${ARGN})
  if(arg_SOURCES)
    add_library(slimpack_${name} STATIC ${arg_SOURCES})
    target_link_libraries(slimpack_${name} PUBLIC slimpack_flags fmt::fmt)
    slimpack_deps(slimpack_${name} PUBLIC ${arg_DEPS})
    slimpack_precompile(slimpack_${name} "${arg_PRECOMPILED}" "${arg_PRECOMPILED_BY}"
                        slimpack_base "${slimpack_std_headers}")
  else()
    message(FATAL_ERROR "module ${name} has no sources")
  endif()
  if(arg_COLD)
    add_library(slimpack_${name}_cold OBJECT ${arg_COLD})
    target_link_libraries(slimpack_${name}_cold PRIVATE slimpack_flags fmt::fmt)
    slimpack_deps(slimpack_${name}_cold PRIVATE ${arg_DEPS})
    slimpack_precompiled_by(slimpack_base slimpack_${name}_cold)
    slimpack_cold(slimpack_${name}_cold)
    target_sources(slimpack_${name} PRIVATE $<TARGET_OBJECTS:slimpack_${name}_cold>)
  endif()
endfunction()

# What `make check` builds.
add_custom_target(checked)

function(slimpack_test name)
  cmake_parse_arguments(arg "" "MAIN;SHARDS;PRECOMPILED_BY" "SOURCES;APART;DEPS;PRECOMPILED" ${ARGN})
  set_source_files_properties(${arg_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(NOT arg_MAIN)
    set(arg_MAIN GTest::gtest_main)
  endif()
  add_executable(${name}_test ${arg_SOURCES} ${arg_APART})
  add_dependencies(checked ${name}_test)
  target_link_libraries(${name}_test PRIVATE slimpack_flags GTest::gtest ${arg_MAIN}
                        ${RAPIDCHECK_LIBRARY})
  slimpack_cold(${name}_test)
  slimpack_deps(${name}_test PRIVATE ${arg_DEPS})
  slimpack_precompile(${name}_test "${arg_PRECOMPILED}" "${arg_PRECOMPILED_BY}" base_test
                      "${slimpack_std_headers};<gtest/gtest.h>;<rapidcheck/gtest.h>")
  if(arg_SHARDS)
    math(EXPR last "${arg_SHARDS} - 1")
    foreach(shard RANGE ${last})
      add_test(NAME ${name}.${shard} COMMAND ${name}_test)
      set_tests_properties(${name}.${shard} PROPERTIES
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${shard}" COST 100)
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
endfunction()
