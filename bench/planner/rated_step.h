// A planned step and the figures that tell planners apart.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/planner/jobs.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/planner/planner.h"

namespace slimpack::bench {

struct StepFigures {
  Nanos makespan;
  Nanos lower_bound;
  double bubble = 0;
  double worst_bubble = 0;         ///< 1 − busy ÷ makespan of the least busy rank
  double gap = 0;                  ///< makespan ÷ lower bound − 1
  Bytes peak;                      ///< activations of the rank that holds the most, in any timing
  std::size_t forward_packs = 0;   ///< of the replica that has the most
  std::size_t backward_packs = 0;  ///< likewise
  std::size_t merged_packs = 0;    ///< of all replicas and both passes
};

[[nodiscard]] StepFigures figures_of(const RatedPlan& step, const Costs& cost);

/// A step by one planner, or why there is none.
struct RatedStep {
  std::string planner;
  std::optional<RatedPlan> step;
  StepFigures figures;  ///< of the step
  std::string error;    ///< without a step: what would be needed
  std::string tuning;   ///< of a baseline
  double planning_seconds = 0;
  double best_planning_seconds = 0;  ///< of the repetitions
  double processor_seconds = 0;      ///< of all threads, in the repetition that took fewest
};

/// Our step. Plans `repetitions` times; planning_seconds is the median, best_planning_seconds the
/// least. REQUIRES: repetitions ≥ 1.
[[nodiscard]] RatedStep rated(const StepJob& step, int repetitions = 1);

/// The baseline's step, tuned. It may hold more than the job's memory cap.
[[nodiscard]] RatedStep rated(const Baseline& baseline, const StepJob& step);

/// Everything that is wrong with the step by checks of their own: its plan, its schedules, and the
/// most that any rank holds in any timing against the cap. One line each.
[[nodiscard]] std::vector<std::string> violations(const RatedPlan& step, const Costs& cost,
                                                  const std::optional<Bytes>& cap);

/// See Report::json.
[[nodiscard]] nlohmann::json to_json(const RatedStep& rated);

}  // namespace slimpack::bench
