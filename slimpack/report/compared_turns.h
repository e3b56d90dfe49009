// Compared turns: a step's documents run by turns under its own plan and under another planner's.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

class JsonFields;  // json_fields.h

/// Measurements of one plan's runs, by turn.
struct PlannerTurns {
  std::string planner;         ///< "packed"
  std::vector<Nanos> step;     ///< makespans
  std::vector<double> bubble;  ///< bubble ratios
  double predicted_bubble = 0;
  Bytes peak_activation;  ///< of any rank in any turn

  bool operator==(const PlannerTurns&) const = default;
};

/// Runs that alternate, one of each plan in a turn. So both see the same machine.
struct ComparedTurns {
  ClockKind clock = ClockKind::kWall;  ///< of all times
  PlannerTurns own;
  PlannerTurns other;

  /// The median over the turns of the other's step ÷ the own one. REQUIRES: a turn.
  [[nodiscard]] double times_as_fast() const;

  bool operator==(const ComparedTurns&) const = default;
};

/// The field "clock". Throws InvalidInput unless it is "wall" or "virtual".
[[nodiscard]] ClockKind clock_field(const JsonFields& fields);

/// {"clock", "times_as_fast", "planners": the own first, [{"planner", "step_ns", "bubble",
/// "predicted_bubble", "peak_activation_bytes"}]}, where "step_ns" and "bubble" have a figure of
/// each turn. Reading throws InvalidInput naming the field.
[[nodiscard]] nlohmann::ordered_json to_json(const ComparedTurns& turns);
[[nodiscard]] ComparedTurns compared_turns_from(const JsonFields& fields);

/// A table of both, the shares of waiting first, and what follows in words. Lines have at most
/// `columns` columns. `tokens`: of the step. REQUIRES: a turn.
[[nodiscard]] std::string compared_turns_text(const ComparedTurns& turns, Tokens tokens,
                                              int columns);

}  // namespace slimpack
