// The listener that a training run tells its progress.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "slimpack/base/units.h"
#include "slimpack/run/step_figures.h"

namespace slimpack {

/// In a job of several processes only the first process's listener is called. Calls come one at a
/// time, but not all from the same thread. An exception of a call ends the run.
class TrainingListener {
 public:
  virtual ~TrainingListener() = default;

  /// One line. `topic`: "model", "data", "resume" or "cost" before the first step, "compare" after
  /// the last one; "" for a line without a topic, such as a warning.
  virtual void note(std::string_view /*topic*/, const std::string& /*text*/) {}

  /// The progress of checking a dataset's tokens. The last call has checked == all.
  virtual void tokens_checked(const std::filesystem::path& /*prefix*/, Tokens /*checked*/,
                              Tokens /*all*/) {}

  /// A part is measured before the first step: `done` of its `all` runs are done.
  virtual void measuring(std::string_view /*part*/, std::int64_t /*done*/, std::int64_t /*all*/) {}

  virtual void step(const StepFigures& /*figures*/, const StepPlace& /*place*/) {}
  virtual void evaluation(const EvaluationFigures& /*figures*/) {}
};

}  // namespace slimpack
