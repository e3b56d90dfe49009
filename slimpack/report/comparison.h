// Compares one step under several planners, and reports many steps of a run: how their figures
// spread.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/planner/planner.h"
#include "slimpack/report/run_bill.h"

namespace slimpack {

/// The predicted figures of a planner's step.
struct PredictedFigures {
  double tokens_per_second = 0;
  std::optional<double> mfu;  ///< model FLOPs ÷ (makespan · ranks · peak); absent without a peak
  double bubble = 0;
  Nanos makespan;
  Bytes peak;      ///< activations of the rank that holds the most, in any timing
  Nanos bound;     ///< that no plan of the kind can beat
  double gap = 0;  ///< makespan / bound − 1
};

[[nodiscard]] PredictedFigures figures_of(const RatedPlan& step, const Costs& cost);

struct ComparedPlanner {
  std::string planner;
  std::optional<PredictedFigures> figures;  ///< absent if it cannot run the step
  std::string error;                        ///< the reason if figures are absent, in few words
  Nanos planning;                           ///< wall time that planning or tuning took
  /// For a baseline: how its step differs from the published setting, and that setting's makespan
  /// and peak. The published setting is one of those that the baseline is tuned over, so `figures`
  /// are never longer. Its makespan is absent where its peak is above the memory cap that `figures`
  /// keep.
  std::string tuning = {};
  std::optional<Nanos> published = std::nullopt;
  Bytes published_peak = {};
  std::int32_t stages_per_rank = 1;
};

/// Steps whose times differ by a smaller share are called equally long.
inline constexpr double kSameTime = 0.005;

/// The names of all planners: "slimpack" and the baselines.
[[nodiscard]] std::vector<std::string> planner_names();

/// Whether the planner runs the step and its peak is within the cap.
[[nodiscard]] bool fits(const ComparedPlanner& planner, const std::optional<Bytes>& cap);

/// The time that a planner's plan takes for the same work, in any unit that all planners share.
struct PlannerTime {
  std::string planner;
  double time = 0;
};

struct SpeedUp {
  double times = 0;   ///< as fast as the other
  std::string other;  ///< the fastest other planner; the first of several
};

/// How ours compares with the fastest other planner. Absent if `times` lacks ours or has no other.
[[nodiscard]] std::optional<SpeedUp> our_speed_up(const std::vector<PlannerTime>& times);

/// Plans the step for each of `jobs`, which differ in their layouts, and takes the best. `planner`
/// is one of planner_names; baselines are tuned (tuned_baseline), and those that do not run the
/// jobs' stages have one stage a rank. `tick`, if set, is called after each candidate plan. Throws
/// InvalidInput as plan_step.
[[nodiscard]] ComparedPlanner compared(const std::string& planner, std::span<const Job> jobs,
                                       const SequenceLengths& lengths, const Choices& choices,
                                       const Costs& cost,
                                       const std::function<void()>& tick = nullptr);

/// The baseline's step in its published setting, with one stage on each rank. Throws InvalidInput
/// as baseline_step.
[[nodiscard]] RatedPlan published_step(const Baseline& baseline, const Job& job,
                                       const SequenceLengths& lengths, const Choices& choices,
                                       const Costs& cost);

/// "costs from hardware: H100 SXM; known error: times ± 17% …"
[[nodiscard]] std::string costs_text(const Costs& cost);

/// A row for each planner, in lines of at most `columns`; peaks above `cap` are marked and
/// explained below. Gaps are to one bound: the least of those planners that keep the cap. Planners
/// above it may have a lower one, because their bound knows no cap.
[[nodiscard]] std::string comparison_text(const std::vector<ComparedPlanner>& planners,
                                          const std::optional<Bytes>& cap, int columns);

/// The speeds of whole runs with the planners that keep the cap, and with the packing that most
/// trainers have today, as published (plan.planner = "packed"), if it keeps the cap; the first
/// planner, then the others by speed.
[[nodiscard]] std::vector<RunSpeed> run_speeds(const std::vector<ComparedPlanner>& planners,
                                               const std::optional<Bytes>& cap);

/// A planner's figures, and how a baseline was tuned. Times are nanoseconds or seconds, as the
/// field's name says. Unknown figures are null.
[[nodiscard]] nlohmann::json to_json(const ComparedPlanner& planner);

/// {"format": "slimpack-comparison", "version": 1, "cases": […]}, with gaps as in the text, and the
/// fields that all cases share: ranks, cap, context, granularity and recomputations. `name`: of the
/// cases.
[[nodiscard]] nlohmann::json comparison_json(const std::vector<ComparedPlanner>& planners,
                                             const std::string& name, const Job& job,
                                             const Choices& choices, const Costs& cost);

/// The steps of a run under one planner. Every planner has the same steps.
struct PlannerSteps {
  std::string planner;
  std::vector<ComparedPlanner> steps;  ///< at least one
};

/// A row for each figure with its mean, p50, p95 and worst. Means of tokens a second and of MFU are
/// those of all steps together. With less than 20 steps p95 is the worst and is left out. Lines
/// have at most `columns` columns. REQUIRES: every step has figures.
[[nodiscard]] std::string steps_text(const PlannerSteps& steps, int columns);

/// A row for each planner with the spread of its makespans, and how many steps it cannot run within
/// `cap`. Below, our mean against that of the fastest other planner. Both run all steps.
[[nodiscard]] std::string steps_comparison_text(const std::vector<PlannerSteps>& planners,
                                                const std::optional<Bytes>& cap, int columns);

/// The speeds of whole runs with the planners that keep the cap in every step: the first planner,
/// then the others by speed.
[[nodiscard]] std::vector<RunSpeed> run_speeds(const std::vector<PlannerSteps>& planners,
                                               const std::optional<Bytes>& cap);

/// {"format": "slimpack-steps", "version": 1, "planners": [{"planner": …, "steps": […],
/// "makespan_ns": {"mean": …, "p50": …, "p95": …, "worst": …}}], "known_error": …}. Spreads are
/// null where a step has no figures.
[[nodiscard]] nlohmann::json steps_json(const std::vector<PlannerSteps>& planners,
                                        const Costs& cost);

}  // namespace slimpack
