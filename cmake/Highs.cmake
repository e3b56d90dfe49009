# Target highs: the HiGHS solver as a static library, from the source archive that tools/setup.sh
# puts into .cache. It is no part of `all`: what links it builds it, once per build folder.
include(FetchContent)

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/highs.txt)
file(READ ${CMAKE_SOURCE_DIR}/tools/highs.txt highs_pin)
if(NOT highs_pin MATCHES "highspy==([0-9.]+) --hash=sha256:([0-9a-f]+)")
  message(FATAL_ERROR "tools/highs.txt does not pin highspy by version and hash")
endif()
set(highs_archive ${CMAKE_SOURCE_DIR}/.cache/highspy-${CMAKE_MATCH_1}.tar.gz)
if(NOT EXISTS ${highs_archive})
  message(FATAL_ERROR "the source of HiGHS is not there (${highs_archive}): run 'make setup'")
endif()
# The Python package lacks two files that only its program and its installation would need.
FetchContent_Declare(highs
  URL ${highs_archive} URL_HASH SHA256=${CMAKE_MATCH_2} DOWNLOAD_EXTRACT_TIMESTAMP ON
  SOURCE_SUBDIR only-populate # no CMakeLists.txt there: it is added below, with our settings
  PATCH_COMMAND ${CMAKE_COMMAND} -E make_directory app
  COMMAND ${CMAKE_COMMAND} -E touch app/CMakeLists.txt highs.pc.in)

# A function, so that no setting leaks.
function(add_highs)
  foreach(off BUILD_SHARED_LIBS HIPO ZLIB BUILD_TESTING BUILD_EXAMPLES BUILD_CXX_EXE
          BUILD_SHARED_EXTRAS_LIB CMAKE_EXPORT_COMPILE_COMMANDS)
    set(${off} OFF)
  endforeach()
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  FetchContent_MakeAvailable(highs)
  add_subdirectory(${highs_SOURCE_DIR} ${highs_BINARY_DIR} EXCLUDE_FROM_ALL SYSTEM)
  # The same in every build type: optimised, without its own (slow) checks and debug information.
  foreach(target highs highs_extras)
    target_compile_options(${target} PRIVATE -O2 -g0 -w)
    target_compile_definitions(${target} PRIVATE NDEBUG)
  endforeach()
endfunction()
add_highs()
