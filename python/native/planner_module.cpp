// slimpack._planner: planner, simulator, baselines and readers for Python. Knows nothing of torch.
#include "python/native/bindings.h"
#include "python/native/invalid_input.h"

namespace nb = nanobind;

NB_MODULE(_planner, m) {
  const nb::object invalid_input = nb::steal(PyErr_NewExceptionWithDoc(
      "slimpack.InvalidInput", "Bad input: the value, the rule that it breaks, and the remedy.",
      PyExc_ValueError, nullptr));
  m.attr("InvalidInput") = invalid_input;
  slimpack::translate_invalid_input(invalid_input);
  m.attr("version") = SLIMPACK_VERSION;
  slimpack::bind_base(m);
  slimpack::bind_data(m);
  slimpack::bind_sampler(m);
  slimpack::bind_micro_batches(m);
  slimpack::bind_plans(m);
  slimpack::bind_costs(m);
  slimpack::bind_planning(m);
  slimpack::bind_run(m);
}
