// A training run that a Python program starts, with its calls back.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "slimpack/training/train.h"

namespace slimpack {

/// Trains with a thread for each rank. `on_step` and `on_evaluation` get a dict of figures each, or
/// are None: then all is told on stderr, as the program does. Result: a dict with "end", "message",
/// "steps", "evaluations" and "written". A signal that Python handles, such as Ctrl-C, stops the
/// run after the step in progress, saves it, and raises what the handler raised. REQUIRES: called
/// with Python's lock.
[[nodiscard]] nanobind::dict train_in_python(const TrainRequest& request,
                                             const nanobind::object& on_step,
                                             const nanobind::object& on_evaluation);

}  // namespace slimpack
