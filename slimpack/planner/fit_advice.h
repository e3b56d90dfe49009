// Fit advice: whether a job fits its machine, and the smallest changes after which it does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/known_error.h"
#include "slimpack/cost/stage_table.h"
#include "slimpack/planner/activation_budget.h"
#include "slimpack/planner/fit_changes.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

struct FitQuestion {
  FitJob job;
  SequenceLengths lengths;         ///< of the step
  Tokens context{0};               ///< as Job::context
  std::vector<double> speed = {};  ///< by rank, as stage_speeds takes them; added ranks have 1
  std::function<Costs(const ParallelGrid&)> cost;  ///< of a job on such a grid
  std::int32_t most_tp = 1;  ///< the largest tp that is tried; with the job's own, tp stays
  std::function<PlanOutcome(const StepQuestion&)> plan = [](const StepQuestion& asked) {
    return plan_step(asked);
  };
  /// Called with the number of jobs of a series that are done, from 0 to `total`. First comes the
  /// series of single changes; then, if none fits, the series of two changes at once.
  std::function<void(std::size_t done, std::size_t total)> progress = [](std::size_t, std::size_t) {
  };
};

/// The bytes that a rank's highest activations have on a GPU besides the tensors of layers, split
/// by what each kind adds to them. A kind that is highest at another moment may take more than it
/// adds.
struct GpuActivations {
  Bytes kernels;     ///< the attention kernel's own
  Bytes messages;    ///< on their way between stages
  Bytes reductions;  ///< gradients on their way between replicas

  [[nodiscard]] Bytes total() const { return kernels + messages + reductions; }
  bool operator==(const GpuActivations&) const = default;
};

/// The fullest of the ranks that have the same stages.
struct RankMemoryUse {
  std::int32_t layers = 0;
  ModelState states;
  Bytes activations;              ///< highest in any timing of the plan
  GpuActivations gpu;             ///< of them; 0 on a CPU
  std::optional<Bytes> capacity;  ///< of the states and activations

  [[nodiscard]] Bytes total() const { return states.total() + activations; }
  /// Negative: so much is missing. REQUIRES: a capacity.
  [[nodiscard]] Bytes headroom() const { return *capacity - total(); }
};

/// A job's memory, in its best plan that fits. If none fits: in the plan under the smallest cap for
/// which a plan is found.
struct FitReport {
  FitJob job;
  bool fits = false;
  std::optional<ActivationBudget> budget;  ///< absent: the machine's memory is not known
  KnownError known;                        ///< of the costs
  ParameterCount parameters;               ///< of the model
  std::vector<RankMemoryUse> ranks;        ///< of the pipeline
  RecomputeByLayer recompute;              ///< of that plan
  Bytes host;                ///< of that plan: pinned host memory of a rank, which is not checked
  Nanos makespan;            ///< of that plan
  Tokens tokens;             ///< of the step
  Tokens longest;            ///< the longest sequence
  Tokens longest_that_fits;  ///< the longest sequence that would fit alone

  /// Index of the rank with the least headroom.
  [[nodiscard]] std::size_t worst() const;
};

/// A changed job that fits.
struct FitOption {
  std::vector<std::string> settings;  ///< as --set takes them
  FitReport report;
};

struct FitAdvice {
  FitReport wish;
  /// The wish's makespan without a memory cap, to compare options with.
  Nanos unlimited;
  std::vector<FitOption> options;  ///< mildest first; none when the wish fits
};

/// The index of the step that leaves the fullest rank the least memory under the question's job, or
/// misses the most; the first of several. `question.lengths` does not count. Throws as fit_advice.
/// Cost: a plan of each step if there are several.
[[nodiscard]] std::size_t fullest_step(FitQuestion question,
                                       const std::vector<SequenceLengths>& steps);

/// Plans the job and, when it does not fit, changed jobs: with single changes first, and with two
/// changes at once only if none of these fits. Deterministic. Throws InvalidInput as plan_step, and
/// when neither the machine's memory nor a cap is known. Cost: a plan of the step for every change.
[[nodiscard]] FitAdvice fit_advice(const FitQuestion& question);

}  // namespace slimpack
