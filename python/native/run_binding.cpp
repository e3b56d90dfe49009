// The rules of a training run that `slimpack train` follows, too.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <new>
#include <optional>

#include "python/native/bindings.h"
#include "slimpack/run/run_limits.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slimpack {
namespace {

void make_limits(RunLimits* limits, std::int64_t first_step, std::int64_t steps,
                 std::optional<std::int64_t> max_tokens, std::optional<double> max_seconds) {
  TrainConfig train;
  train.steps = steps;
  train.max_tokens = Tokens(max_tokens.value_or(0));
  train.max_seconds = max_seconds.value_or(0);
  new (limits) RunLimits(train, first_step, monotonic_now, "");
}

RunProgress progress_of(std::int64_t steps, std::int64_t tokens) {
  return {.steps = steps, .tokens = Tokens(tokens)};
}

}  // namespace

void bind_run(nb::module_& m) {
  nb::class_<RunLimits>(m, "RunLimits", "The limits of one start of a run, whose time begins now.")
      .def("__init__", &make_limits, "first_step"_a, "steps"_a, "max_tokens"_a.none(),
           "max_seconds"_a.none(), "None = no limit.")
      .def(
          "allow_another",
          [](const RunLimits& limits, std::int64_t steps, std::int64_t tokens) {
            return limits.allow_another(progress_of(steps, tokens));
          },
          "steps"_a, "tokens"_a, "Whether steps and tokens done allow another step.")
      .def(
          "out_of_time",
          [](const RunLimits& limits, std::int64_t steps) {
            return limits.out_of_time(progress_of(steps, 0));
          },
          "steps"_a, "Whether time is over; never before the first step of a start.")
      .def(
          "token_limit_reached",
          [](const RunLimits& limits, std::int64_t steps, std::int64_t tokens) {
            return limits.token_limit_reached(progress_of(steps, tokens));
          },
          "steps"_a, "tokens"_a, "What ends the run; empty where that does not.")
      .def("time_limit_reached", &RunLimits::time_limit_reached)
      .def(
          "evaluation_due",
          [](const RunLimits& limits, std::int64_t steps, std::optional<std::int64_t> evaluated,
             std::optional<std::string> limit, std::int64_t every) {
            return limits.evaluation_due({.steps = steps,
                                          .evaluated_steps = evaluated.value_or(-1),
                                          .limit = limit.value_or("")},
                                         every);
          },
          "steps"_a, "evaluated"_a.none(), "limit"_a.none(), "every"_a,
          "Whether to evaluate now. evaluated: steps done at the last evaluation. limit: what has "
          "ended the run. every: steps; 0 = at both ends alone.");
}

}  // namespace slimpack
