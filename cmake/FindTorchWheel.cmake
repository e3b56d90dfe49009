# Imported target torch_wheel: libtorch from the Python wheel, without find_package(Torch), which
# wants kineto and a CUDA toolkit. The include folder is searched last (-idirafter): it bundles
# another version of fmt, which would shadow the system's.
if(NOT EXISTS "${TORCH_DIR}/lib/libtorch_cpu.so")
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
      "import importlib.util as u; s=u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE torch_found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(TORCH_DIR "${torch_found}" CACHE PATH "Folder of the torch wheel (holds include/ and lib/)"
      FORCE)
endif()
if(NOT EXISTS "${TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "libtorch not found (TORCH_DIR='${TORCH_DIR}'): run 'make setup', or "
                      "configure with -DSLIMPACK_TORCH=OFF to build everything but training")
endif()

# pip has another folder for torch in every build. By way of a link the paths stay, so that nothing is
# compiled again.
set(torch_link ${CMAKE_BINARY_DIR}/torch)
file(CREATE_LINK ${TORCH_DIR} ${torch_link} SYMBOLIC)
foreach(name torch_cpu c10)
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${torch_link}/lib/lib${name}.so)
endforeach()
add_library(torch_wheel INTERFACE)
target_link_libraries(torch_wheel INTERFACE torch_cpu c10)
# For sources that divide work over libtorch's threads (at::parallel_for): without OpenMP it does all on
# the calling thread. The library is the wheel's own, if it has one, so that there is one pool of threads.
# Targets link it PRIVATE and compile headers of their own: -fopenmp changes them.
add_library(torch_threads INTERFACE)
target_compile_options(torch_threads INTERFACE -fopenmp)
if(EXISTS ${TORCH_DIR}/lib/libgomp.so.1)
  target_link_libraries(torch_threads INTERFACE ${torch_link}/lib/libgomp.so.1)
else()
  target_link_libraries(torch_threads INTERFACE gomp)
endif()
# Nothing refers to the CUDA part by name: its kernels register themselves when it is loaded.
if(EXISTS ${TORCH_DIR}/lib/libtorch_cuda.so)
  add_library(torch_cuda SHARED IMPORTED)
  set_target_properties(torch_cuda PROPERTIES IMPORTED_LOCATION ${torch_link}/lib/libtorch_cuda.so)
  target_link_libraries(torch_wheel INTERFACE -Wl,--push-state,--no-as-needed torch_cuda
                                              -Wl,--pop-state)
endif()
target_compile_options(torch_wheel INTERFACE "SHELL:-idirafter ${torch_link}/include"
                       -Wno-unused-parameter -Wno-shadow)
