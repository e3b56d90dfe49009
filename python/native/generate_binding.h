// Text generation for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace slimpack {

void bind_generation(nanobind::module_& m);

}  // namespace slimpack
