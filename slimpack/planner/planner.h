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
#include "slimpack/plan/job.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/search_options.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/sim/simulate.h"
#include "slimpack/spec/recompute.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// What a planner may try.
struct Choices {
  PlannerKind planner = PlannerKind::kSlimpack;
  Tokens granularity{128};  ///< cuts lie at multiples of it
  /// The largest group of replicas that may run a sequence together (DP-Merge): 1, 2, 4, …; no
  /// larger than what the costs know.
  std::int32_t most_merged = 1;
  /// Rounds of local search: 1 takes milliseconds; each further one looks wider and costs several
  /// times as much. More rounds never give a longer step.
  std::int32_t effort = 1;
  /// kSplit: weight gradients may run later than input gradients. Never a longer step than kWhole.
  /// Needs costs that know their part (Costs::weight_gradient).
  BackwardKind backward = BackwardKind::kWhole;
  /// Beyond the fast search: kMilp and, on small steps, kAuto also rate exact answers on coarse
  /// grids. Never a longer step than with kFluid.
  SolverKind solver = SolverKind::kFluid;
  /// Time to go on for, with more effort and exact answers from larger programs, counted from the
  /// start; 0 = stop when the usual search is done. Never a longer step than without, but not
  /// always the same one.
  Nanos time_budget{0};
  /// What layers may compute again, or offload, to save memory; what gives the shortest step is
  /// used. kOffload needs costs that know host_per_byte.
  std::vector<Recompute> recompute = {Recompute::kElementwise};
  /// Whether layers of a stage may differ in it, in steps of kSlimpack. Never a longer step than
  /// where they may not.
  bool mixed_recompute = false;
  SearchOptions search = {};

  bool operator==(const Choices&) const = default;
};

/// A plan ready to run, with what is expected of it.
struct RatedPlan {
  StepPlan plan;
  std::vector<Schedule> schedules;         ///< by replica
  std::vector<std::vector<double>> speed;  ///< the job's
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
  std::optional<RatedPlan> step;  ///< exactly one of the two is set
  std::optional<DoesNotFit> does_not_fit;
};

/// With kSlimpack never longer than any baseline's step (planner/baseline_step.h) that keeps the
/// cap and `most_merged`; where no sequence is longer than the context, they are candidates, too.
/// kPacked is the best-fit baseline's step. Deterministic without a time budget. `progress`, if
/// set, is told of each candidate that was looked at. Throws InvalidInput for what makes no sense
/// (no sequences, an empty sequence, a sequence longer than the context with kPacked).
[[nodiscard]] PlanOutcome plan_step(const Job& job, const SequenceLengths& lengths,
                                    const Choices& choices, const Costs& cost,
                                    const std::function<void()>& progress = nullptr);

/// Simulates a step again.
[[nodiscard]] SimulationResult predict(const RatedPlan& step, const Costs& cost,
                                       const SimulationOptions& options = {});

/// plan.json: the plan, its schedules as text, the cost model that it was made with and the
/// prediction's figures, so that `slimpack simulate` needs nothing else.
struct PlanFile {
  RatedPlan step;
  Costs cost;
};
[[nodiscard]] std::string plan_file_to_json(const RatedPlan& step, const Costs& cost);
/// Checks the plan and the schedules and simulates again; throws InvalidInput naming `origin`.
[[nodiscard]] PlanFile plan_file_from_json(std::string_view text, std::string_view origin);

}  // namespace slimpack
