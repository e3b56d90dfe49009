// InvalidInput is one Python class, whichever compiled module throws it.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>

#include "slimpack/base/error.h"

namespace slimpack {

/// From now on InvalidInput reaches Python as `type`, a subclass of ValueError that lives as long
/// as the interpreter.
inline void translate_invalid_input(nanobind::handle type) {
  nanobind::register_exception_translator(
      [](const std::exception_ptr& thrown, void* python_type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const InvalidInput& e) {
          PyErr_SetString(static_cast<PyObject*>(python_type), e.what());
        }
      },
      type.inc_ref().ptr());
}

}  // namespace slimpack
