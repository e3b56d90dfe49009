# version.cpp below the build folder: what --version prints. Written again by each build, and
# compiled again only when the version or the commit has changed.
if(SLIMPACK_TORCH)
  file(STRINGS ${TORCH_DIR}/version.py torch_version REGEX "^__version__ = ")
  string(REGEX REPLACE ".*'(.*)'" "\\1" SLIMPACK_TORCH_VERSION "${torch_version}")
  set(built_in ", torch ${SLIMPACK_TORCH_VERSION}")
endif()
# What of the GPU was built in, which the module of the kernels says.
get_property(cuda_kernels GLOBAL PROPERTY SLIMPACK_CUDA_KERNELS)
if(cuda_kernels)
  string(APPEND built_in ", CUDA kernels for ${cuda_kernels}")
elseif(SLIMPACK_TORCH)
  string(APPEND built_in ", no CUDA kernels")
endif()
set(version_source ${CMAKE_BINARY_DIR}/generated/version.cpp)
add_custom_target(version_source
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUT=${version_source}
          -DVERSION=${PROJECT_VERSION} "-DBUILT_IN=${built_in}"
          -P ${CMAKE_SOURCE_DIR}/cmake/WriteVersion.cmake
  BYPRODUCTS ${version_source} VERBATIM)
