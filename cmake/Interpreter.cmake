# Python_EXECUTABLE: the interpreter whose torch is used and that imports the Python package. Where
# nobody has said another one (pip does), that of .venv, or else python3.
if(NOT Python_EXECUTABLE)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
    set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  else()
    find_program(Python_EXECUTABLE python3)
  endif()
endif()
