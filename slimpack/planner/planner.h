// Planner: share → cut → schedule → rate → choose.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/job.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/plan_limits.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/sim/simulate.h"
#include "slimpack/spec/recompute.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The values that `slimpack sweep` keeps the search to. The search chooses those that are absent.
struct SearchOptions {
  std::optional<int> packs = {};        ///< MicroPacks of a pass
  std::optional<double> taper = {};     ///< of the first and last MicroPacks; 1 = none
  std::optional<int> short_first = {};  ///< so many of the shortest sequences ahead of the longest
  bool baselines = true;                ///< whether steps of baselines are candidates

  bool operator==(const SearchOptions&) const = default;
};

/// The choices that are open to a planner.
struct Choices {
  PlannerKind planner = PlannerKind::kSlimpack;
  Tokens granularity{128};  ///< cuts lie at multiples of it
  /// The largest group of replicas that may run a sequence together (DP-Merge): 1, 2, 4, …; the
  /// costs must know merging of that many.
  std::int32_t most_merged = 1;
  /// Ranks of a pipeline may run parts of each other's attention. Never a longer step than with
  /// false.
  bool exchange_context = false;
  /// Rounds of local search. 1 takes milliseconds; each further round looks wider and takes several
  /// times as long. More rounds never give a longer step.
  std::int32_t effort = 1;
  /// kSplit: weight gradients may run later than input gradients. Never a longer step than kWhole.
  /// Needs costs that know what weight gradients take (Costs::weight_gradient).
  BackwardKind backward = BackwardKind::kWhole;
  /// kMilp and, on small steps, kAuto also rate exact answers on coarse grids. Never a longer step
  /// than with kFluid.
  SolverKind solver = SolverKind::kFluid;
  /// kSymmetric: every backward MicroPack holds the slices of a forward one, so that a runtime with
  /// one number for both can run it.
  CutsKind cuts = CutsKind::kAny;
  /// How long to look for shorter steps, counted from the start: with more effort, and with exact
  /// answers from larger programs. 0 = stop after the usual search. Never a longer step than with
  /// 0, but not always the same step.
  Nanos time_budget{0};
  /// Ways in which layers may compute rows again, or offload them, to save memory. The policy with
  /// the shortest step is used. kOffload needs costs that know host_per_byte.
  std::vector<Recompute> recompute = {Recompute::kElementwise};
  /// Whether layers of a stage may differ in their policy; kSlimpack alone does so. Never a longer
  /// step than with false.
  bool mixed_recompute = false;
  SearchOptions search = {};

  bool operator==(const Choices&) const = default;
};

/// A plan with its orders, and their predicted times and memory.
struct RatedPlan {
  StepPlan plan;
  std::vector<Schedule> schedules;         ///< by replica
  std::vector<std::vector<double>> speed;  ///< the job's
  SimulationResult prediction;             ///< without a timeline; `predict` gives one
  /// No plan of these sequences is faster (solver/step_bound.h). If this plan moves no rows
  /// (MicroPack::row_zones), the bound does not cover plans that move rows.
  Nanos lower_bound;
  /// Name of the baseline that made the plan (baselines/baseline.h); empty = the search found it,
  /// or it was read from a file.
  std::string_view baseline = {};
  /// By rank of the pipeline: the most bytes that any replica's rank holds in any timing. It counts
  /// that replicas which run MicroPacks together wait for each other. Empty unless the search found
  /// the step.
  std::vector<Bytes> memory = {};
  /// makespan / lower_bound − 1.
  [[nodiscard]] double gap() const;
};

/// A plan that a runtime can run.
struct RunnablePlan : RatedPlan {
  std::vector<LoweredSchedule> lowered;  ///< by replica: the schedules with sends and receives
};

/// Cost: a simulation. REQUIRES: schedules of all replicas.
[[nodiscard]] RunnablePlan runnable(RatedPlan step, const Costs& cost);

/// Why nothing fits: a result, not an error.
struct DoesNotFit {
  Bytes cap;
  Bytes needed;              ///< the least peak of activations of any candidate
  std::int32_t rank = 0;     ///< of the pipeline: where that peak is
  Tokens longest;            ///< the longest sequence
  Tokens longest_that_fits;  ///< the longest single sequence that would fit this cap, 0 = none
  /// One line for people: the memory that is needed, the cap, what would fit, and the remedy.
  [[nodiscard]] std::string message(
      std::string_view remedy =
          "raise plan.memory_cap, use more pipeline ranks (parallel.pp) or a shorter "
          "data.context") const;
};

/// DoesNotFit as an error, for callers that cannot go on without a plan. The message is one line.
class JobDoesNotFit : public InvalidInput {
 public:
  using InvalidInput::InvalidInput;
};

struct PlanOutcome {
  std::optional<RunnablePlan> step;  ///< exactly one of the two is set
  std::optional<DoesNotFit> does_not_fit;
};

/// A step to plan. Keeps references.
struct StepQuestion {
  const Job& job;
  const SequenceLengths& lengths;
  const Choices& choices;
  const Costs& cost;
};

/// With kSlimpack, the baselines' steps in all their settings (planner/baseline_step.h) are
/// candidates, too, where no sequence is longer than the context. So the step is never longer than
/// that of a tuned baseline that keeps the cap and `most_merged`. kPacked gives the best-fit
/// baseline's step as published, kSlimpipe and kZeppelin the best one of the baseline of that name;
/// kZeppelin shares MicroPacks between as many replicas as the costs know. Deterministic without a
/// time budget. `progress`, if set, is called after each candidate. Throws InvalidInput for input
/// that makes no sense (no sequences, an empty sequence, a sequence longer than the context with
/// another planner than kSlimpack).
[[nodiscard]] PlanOutcome plan_step(const StepQuestion& question,
                                    const std::function<void()>& progress = nullptr);

/// Simulates a step again.
[[nodiscard]] SimulationResult predict(const RatedPlan& step, const Costs& cost,
                                       const SimulationOptions& options = {});

/// plan.json: the plan, its schedules as text, the costs that it was made with and the figures of
/// its prediction, so that `slimpack simulate` needs no other file.
struct PlanFile {
  RunnablePlan step;
  Costs cost;
  std::optional<PlanLimits> limits = {};  ///< absent where the file does not say them
};
[[nodiscard]] std::string plan_file_to_json(const RatedPlan& step, const Costs& cost,
                                            const std::optional<PlanLimits>& limits = {});
/// Checks the plan and the schedules and simulates again; throws InvalidInput naming `origin`.
[[nodiscard]] PlanFile plan_file_from_json(std::string_view text, std::string_view origin);

}  // namespace slimpack
