// Planner: share → cut → schedule → rate → choose.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/search_options.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/sim/simulate.h"
#include "slimpack/spec/recompute.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

struct PlanRequest {
  SequenceLengths lengths;
  std::int32_t pp = 1;
  std::int32_t dp = 1;  ///< replicas
  PlannerKind planner = PlannerKind::kSlimpack;
  Tokens granularity{128};
  /// Tokens that a pack of kPacked and of the baselines holds, whose steps are candidates, too,
  /// where no sequence is longer.
  Tokens context{0};
  std::optional<Bytes> memory_cap = std::nullopt;  ///< activations of a rank
  /// Layers of each stage, `pp` of them, where a running model has fixed them; absent: those that
  /// balance these lengths.
  std::optional<StageLayout> layout = std::nullopt;
  /// [replica][stage], 1 = as the cost model says; empty = all 1.
  std::vector<std::vector<double>> speed = {};
  /// The largest group of replicas that may run a sequence together (DP-Merge): 1, 2, 4, …; no
  /// larger than what the cost model knows.
  std::int32_t most_merged = 1;
  /// Rounds of local search: 1 takes milliseconds; each further one looks wider and costs several
  /// times as much. More rounds never give a longer step.
  std::int32_t effort = 1;
  /// kSplit: weight gradients may run later than input gradients. Never a longer step than kWhole.
  /// Needs a cost model that knows their part (CostModel::weight_gradient).
  BackwardKind backward = BackwardKind::kWhole;
  /// Beyond the fast search: kMilp and, on small steps, kAuto also rate exact answers on coarse
  /// grids. Never a longer step than with kFluid.
  SolverKind solver = SolverKind::kFluid;
  /// Time to go on for, with more effort and exact answers from larger programs, counted from the
  /// start; 0 = stop when the usual search is done. Never a longer step than without, but not
  /// always the same one.
  Nanos time_budget{0};
  /// What layers may compute again, or offload, to save memory; what gives the shortest step is
  /// used. kOffload needs a cost model that knows host_per_byte.
  std::vector<Recompute> recompute = {Recompute::kElementwise};
  /// Whether layers of a stage may differ in it. Never a longer step than where they may not.
  bool mixed_recompute = false;
  /// Told of each candidate that the search has looked at, if set.
  std::function<void()> progress = nullptr;
  SearchOptions search = {};
};

/// A plan ready to run, with what is expected of it.
struct PlannedStep {
  StepPlan plan;
  std::vector<Schedule> schedules;         ///< by replica
  std::vector<std::vector<double>> speed;  ///< the request's
  SimulationResult prediction;             ///< without a timeline; `predict` gives one
  Nanos lower_bound;  ///< no plan of these sequences is faster (solver/step_bound.h)
  /// The baseline whose plan it is (baselines/baseline.h); empty = found by the search, or read.
  std::string_view baseline = {};
  /// By stage: the most that any rank holds in any timing, where replicas that run MicroPacks
  /// together hold each other back. Empty where the search has not found the step.
  std::vector<Bytes> memory = {};
  /// makespan / lower_bound − 1.
  [[nodiscard]] double gap() const;
};

/// Why nothing fits: a result, not an error.
struct DoesNotFit {
  Bytes cap;
  Bytes needed;              ///< the least peak activation that any candidate reached
  StageId stage;             ///< the stage that needs it
  Tokens longest;            ///< the longest sequence
  Tokens longest_that_fits;  ///< the longest single sequence that would fit this cap, 0 = none
  /// One line for people: what is needed, what the cap is, what would fit, what to do.
  [[nodiscard]] std::string message(
      std::string_view remedy =
          "raise plan.memory_cap, use more stages (parallel.pp) or a shorter "
          "data.context") const;
};

struct PlanOutcome {
  std::optional<PlannedStep> step;  ///< exactly one of the two is set
  std::optional<DoesNotFit> does_not_fit;
};

/// With kSlimpack never longer than any baseline's step (planner/baseline_step.h) that keeps the
/// cap and `most_merged`. Deterministic without a time budget. Throws InvalidInput for requests
/// that make no sense (no sequences, an empty sequence, pp out of range, a sequence longer than the
/// context with kPacked).
[[nodiscard]] PlanOutcome plan_step(const PlanRequest& request, const CostModel& cost);

/// Simulates a step again. `cost` is that of the request, before recomputation.
[[nodiscard]] SimulationResult predict(const PlannedStep& step, const CostModel& cost,
                                       const SimulationOptions& options = {});

/// plan.json: the plan, its schedules as text, the cost model that it was made with and the
/// prediction's figures, so that `slimpack simulate` needs nothing else.
struct PlanFile {
  PlannedStep step;
  CostModel cost;
};
[[nodiscard]] std::string plan_file_to_json(const PlannedStep& step, const CostModel& cost);
/// Checks the plan and the schedules and simulates again; throws InvalidInput naming `origin`.
[[nodiscard]] PlanFile plan_file_from_json(std::string_view text, std::string_view origin);

}  // namespace slimpack
