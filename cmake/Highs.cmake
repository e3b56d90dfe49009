# Imported target highs: the HiGHS solver as its Python package (highspy) ships it.
include(Interpreter)
if(NOT EXISTS "${HIGHS_LIBRARY}")
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
      "import importlib.util as u; s=u.find_spec('highspy'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE highs_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(GLOB highs_found ${highs_folder}/libhighs.so.1)
  set(HIGHS_LIBRARY "${highs_found}" CACHE FILEPATH "The library of the highspy wheel" FORCE)
endif()
if(NOT EXISTS "${HIGHS_LIBRARY}")
  message(FATAL_ERROR "HiGHS not found (HIGHS_LIBRARY='${HIGHS_LIBRARY}'): run 'make setup'")
endif()
add_library(highs SHARED IMPORTED)
set_target_properties(highs PROPERTIES IMPORTED_LOCATION ${HIGHS_LIBRARY})
