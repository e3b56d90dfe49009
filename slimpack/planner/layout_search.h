// Layout search: which tp × pp × dp trains a run's steps fastest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/job.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// A job on one layout, with all that planning its steps takes.
struct LayoutJob {
  Costs cost;
  Job job;
  Choices choices;
};

struct LayoutQuestion {
  std::vector<SequenceLengths> steps;  ///< samples of the run's steps, at least one
  std::vector<ParallelGrid> grids;     ///< what is tried
  /// Of these all steps are planned however long they take, so that one can say why they lose.
  std::vector<ParallelGrid> usual;
  std::size_t best = 10;  ///< the number of best layouts whose order is wanted
  /// nullopt: weights, gradients and optimizer leave no memory for activations.
  std::function<std::optional<LayoutJob>(const ParallelGrid&)> job;
  /// Told after each planned or spared step; there are steps · grids of them.
  std::function<void(std::int64_t steps)> progress = [](std::int64_t) {};
  std::function<void()> tick = [] {};  ///< told after each candidate of a plan
};

enum class LayoutOutcome : std::uint8_t {
  kRated,         ///< all steps are planned
  kBehind,        ///< it cannot be one of the best
  kStepTooLarge,  ///< a step does not fit
  kModelTooLarge  ///< the model's states leave no memory for activations
};

/// One planned step. Times of ranks are means over all ranks.
struct LayoutStep {
  Nanos makespan;
  Nanos work;               ///< what a rank computes
  Nanos end;                ///< reduction and optimizer, at least
  Bytes headroom;           ///< what the fullest rank leaves of the cap; 0 without a cap
  std::int32_t merged = 1;  ///< the most replicas that share a MicroPack
  RecomputeByLayer recompute;

  /// What a rank waits for others, and for messages.
  [[nodiscard]] Nanos wait() const { return makespan - work - end; }
};

struct RatedLayout {
  ParallelGrid grid;
  LayoutOutcome outcome = LayoutOutcome::kRated;
  std::vector<LayoutStep> steps;  ///< those that were planned
  Nanos bound;                    ///< mean over all steps; no plans are shorter
  /// Of kStepTooLarge; absent where it was clear without a plan: the longest sequence alone, or the
  /// reduction of gradients, takes more than is left.
  std::optional<DoesNotFit> why;
  Bytes left;  ///< of a rank's memory for activations; 0 without a cap

  /// Mean makespan of the planned steps. REQUIRES: any.
  [[nodiscard]] Nanos mean() const;
};

/// Rates the layouts: the rated ones first, the fastest first; then those behind by their bounds,
/// then those that do not fit. Layouts are planned in the order of their lower bounds
/// (solver/step_bound.h). One is given up as soon as its planned steps and the bounds of the others
/// take longer than the `best` best layouts. Deterministic. Cost: a bound for every step and
/// layout, and the plans. Throws InvalidInput as plan_step.
[[nodiscard]] std::vector<RatedLayout> search_layouts(const LayoutQuestion& question);

}  // namespace slimpack
