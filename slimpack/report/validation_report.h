// The report of `validate`: predicted steps beside their measured repetitions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "slimpack/planner/step_errors.h"

namespace slimpack {

/// Over the steps.
struct ValidationSummary {
  double mean_error = 0;           ///< mean of |predicted ÷ measured − 1| of the makespans
  double mean_replayed_error = 0;  ///< the same of replayed ones
  double memory_error = 0;         ///< the largest of any rank
  bool same_order = true;          ///< of the actions of every rank
};

/// REQUIRES: at least one step.
[[nodiscard]] ValidationSummary summary_of(std::span<const StepErrors> steps);

/// A table of the steps, one of the ten actions that are furthest off with the reasons, and the
/// summary in words. Lines have at most `columns` columns. REQUIRES: at least one step.
[[nodiscard]] std::string validation_text(std::span<const StepErrors> steps, int columns);

/// {"format": "slimpack-validation", "version": 1, …}: times in nanoseconds, memory in bytes,
/// errors as shares.
[[nodiscard]] nlohmann::json validation_json(std::span<const StepErrors> steps);

}  // namespace slimpack
