// Layout search: which tp × pp × dp trains a run's steps fastest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/known_error.h"
#include "slimpack/plan/job.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// A job on one layout, with all that planning its steps takes.
struct LayoutJob {
  Costs cost;
  Job job;
  Choices choices;
  std::int64_t reserved_percent = 0;  ///< ActivationBudget's; 0 = the memory cap is the user's own
};

struct LayoutQuestion {
  std::vector<SequenceLengths> steps;  ///< samples of the run's steps, at least one
  std::vector<ParallelGrid> grids;     ///< what is tried
  /// Layouts whose steps are all planned, however long they take, so that one can say why they
  /// lose.
  std::vector<ParallelGrid> usual;
  std::size_t best = 10;  ///< the number of best layouts whose order is wanted
  /// Small changes of a layout that leave its ranks as they are; none where this is empty. They are
  /// tried for the `changed` best layouts and for those that do not fit; once more for layouts that
  /// took one.
  std::function<std::vector<ParallelGrid>(const ParallelGrid&)> changes = {};
  std::size_t changed = 5;
  bool tries_split = false;  ///< split backwards are a small change of a layout that fits, too
  /// nullopt: weights, gradients and optimizer leave no memory for activations.
  std::function<std::optional<LayoutJob>(const ParallelGrid&)> job;
  /// Called after each planned or spared step; there are steps · grids of them.
  std::function<void(std::int64_t steps)> progress = [](std::int64_t) {};
  /// Called before small changes are tried: so many steps of changed layouts follow.
  std::function<void(std::int64_t steps)> more = [](std::int64_t) {};
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
  Flops flops{0};           ///< model_flops of the step
  std::int32_t merged = 1;  ///< the most replicas that share a MicroPack
  RecomputeByLayer recompute;

  /// The time that a rank waits for others, and for messages.
  [[nodiscard]] Nanos wait() const { return makespan - work - end; }
};

struct RatedLayout {
  ParallelGrid grid;
  bool splits_backwards = false;  ///< a small change: its job has whole ones
  LayoutOutcome outcome = LayoutOutcome::kRated;
  std::vector<LayoutStep> steps;  ///< those that were planned
  Nanos bound;                    ///< mean over all steps; no plans are shorter
  /// The reason for kStepTooLarge. Absent where it was clear without a plan: the longest sequence
  /// alone, or the reduction of gradients, takes more than is left.
  std::optional<DoesNotFit> why;
  Bytes left;                         ///< of a rank's memory for activations; 0 without a cap
  KnownError known;                   ///< of its costs
  std::int64_t reserved_percent = 0;  ///< as LayoutJob
  double peak_flops = 0;              ///< of a rank; 0 = not known

  /// Mean makespan of the planned steps. REQUIRES: any.
  [[nodiscard]] Nanos mean() const;
  /// The MFU of all planned steps together; absent without a peak. REQUIRES: any.
  [[nodiscard]] std::optional<double> mfu() const;
};

/// Rates the layouts, each as it is asked for or with the small changes that make its steps
/// shortest: the rated ones first, the fastest first; then those behind by their bounds,
/// then those that do not fit. Layouts are planned in the order of their lower bounds
/// (solver/step_bound.h). One is given up as soon as its planned steps and the bounds of the others
/// take longer than the `best` best layouts; a changed one also where they take longer than the
/// layout itself. Deterministic. Cost: a bound for every step and
/// layout, and the plans. Throws InvalidInput as plan_step.
[[nodiscard]] std::vector<RatedLayout> search_layouts(const LayoutQuestion& question);

}  // namespace slimpack
