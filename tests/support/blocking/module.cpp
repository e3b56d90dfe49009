// The Python module blocking_backend, which shares the types of torch's own module.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <utility>

#include "tests/support/blocking/blocking_backend.h"
#include "tests/support/blocking/posted.h"

PYBIND11_DECLARE_HOLDER_TYPE(T, c10::intrusive_ptr<T>, true)

namespace slimpack::testing {
namespace {

BackendPtr make(BackendPtr gloo, StorePtr store, std::string name, std::vector<std::int64_t> ranks,
                Patience patience, Way way) {
  return c10::make_intrusive<BlockingBackend>(std::move(gloo), std::move(store), std::move(name),
                                              std::move(ranks), patience, way);
}

PYBIND11_MODULE(blocking_backend, m) {
  const pybind11::call_guard<pybind11::gil_scoped_release> others_run;
  pybind11::enum_<Synchronising>(m, "Synchronising")
      .value("NONE", Synchronising::kNone)
      .value("FIRST", Synchronising::kFirst)
      .value("EVERY", Synchronising::kEvery);
  pybind11::enum_<Way>(m, "Way")
      .value("LAZY", Way::kLazy)
      .value("EAGER", Way::kEager)
      .value("FORGETFUL", Way::kForgetful);
  m.def("make", &make, others_run);
  m.def("synchronize", &synchronize, others_run);
  m.def("set_synchronising", &set_synchronising);
}

}  // namespace
}  // namespace slimpack::testing
