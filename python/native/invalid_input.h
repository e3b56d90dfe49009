// Errors on their way to Python. InvalidInput is one Python class, whichever compiled module throws
// it.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <string_view>

#include "slimpack/base/error.h"

namespace slimpack {

/// Raises `type` with the failure's message, which may quote a path whose bytes are no UTF-8.
inline void raise_in_python(void* type, const std::exception& failure) {
  const std::string_view text = failure.what();
  const auto message = nanobind::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
  PyErr_SetObject(static_cast<PyObject*>(type), message.ptr());
}

/// From now on InvalidInput reaches Python as `type`, a subclass of ValueError that lives as long
/// as the interpreter, and RunFailed as RuntimeError.
inline void translate_invalid_input(nanobind::handle type) {
  nanobind::register_exception_translator(
      [](const std::exception_ptr& thrown, void* python_type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const InvalidInput& e) {
          raise_in_python(python_type, e);
        } catch (const RunFailed& e) {
          raise_in_python(PyExc_RuntimeError, e);
        }
      },
      type.inc_ref().ptr());
}

}  // namespace slimpack
