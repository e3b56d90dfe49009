// Baselines: the methods that users run today, rebuilt as makers of StepPlans so that one simulator
// rates them all. docs/baselines.md says how each was rebuilt and how it differs from its original.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/job.h"
#include "slimpack/plan/plan.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

/// How the runtime of the rebuilt system orders a stage.
enum class Discipline : std::uint8_t {
  kOneFOneB,        ///< Megatron's 1F1B
  kSlicedOneFOneB,  ///< 1F1B over slices, a pack's backward slices in reverse
  kListSchedule,    ///< any action that can run under the memory cap, backwards first
};

struct BaselinePlan {
  StepPlan plan;
  Discipline discipline = Discipline::kOneFOneB;
  /// kSlicedOneFOneB: a stage has so many slices more in flight than the next stage.
  std::int32_t ahead_per_stage = 1;
  /// kOneFOneB, by replica: each MicroPack's column, its number among the microbatches of a plain
  /// 1F1B, ascending. All replicas of a merged pack have it in the same column. A replica without a
  /// pack in a column does nothing there. Empty = a MicroPack's column is its index.
  std::vector<std::vector<std::int32_t>> columns = {};
};

struct Baseline {
  std::string_view name;   ///< on the command line and in tables
  std::string_view about;  ///< one line: what it does and who runs it
  BaselinePlan (*plan)(const Job& job, const SequenceLengths& lengths,
                       const RecomputingCosts& cost);
  bool cuts = false;    ///< cuts sequences at any token
  bool merges = false;  ///< makes merged MicroPacks
};

/// In the order in which tables list them.
[[nodiscard]] std::span<const Baseline> baselines();

/// Throws InvalidInput for an unknown name, naming the nearest.
[[nodiscard]] const Baseline& baseline_named(std::string_view name);

/// The baseline that most users run: whole documents in packs. "packed" means this one everywhere.
[[nodiscard]] const Baseline& packed_baseline();

/// The baseline's plan of `lengths`, which may be empty. check_plan accepts it. With fewer packs
/// than replicas some replicas have none. Deterministic. Throws InvalidInput if a sequence exceeds
/// the context, or if a length, the context or the number of replicas is below 1.
[[nodiscard]] BaselinePlan baseline_plan(const Baseline& baseline, const Job& job,
                                         const SequenceLengths& lengths,
                                         const RecomputingCosts& cost);

}  // namespace slimpack
