// Measured step: what a run keeps of its last step beside the step's plan, so that people can look
// at both later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/data/sequences.h"
#include "slimpack/plan/plan.h"
#include "slimpack/report/compared_turns.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

struct MeasuredStep {
  std::int64_t step = 1;  ///< from 1 on
  ClockKind clock = ClockKind::kWall;
  std::string device;                       ///< "cpu"
  std::string planner;                      ///< "slimpack"
  std::vector<DocumentSequence> sequences;  ///< by SequenceId
  Timeline timeline;
  /// The step's documents by turns, as planned and under another planner, if that was asked for.
  std::optional<ComparedTurns> compared = std::nullopt;

  bool operator==(const MeasuredStep&) const = default;
};

/// measured.json: JSON with "format": "slimpack-measured-step" and "version": 1. A sequence is
/// [document, tokens of the document before it, tokens]. "compared" is there if the step was
/// compared (compared_turns.h). Reading checks every field and throws InvalidInput naming `origin`.
[[nodiscard]] std::string measured_step_to_json(const MeasuredStep& step);
[[nodiscard]] MeasuredStep measured_step_from_json(std::string_view text, std::string_view origin);

/// Throws InvalidInput naming `origin` unless these are the plan's sequences, ranks and MicroPacks.
void require_measured_of(const StepPlan& plan, const MeasuredStep& step, std::string_view origin);

}  // namespace slimpack
