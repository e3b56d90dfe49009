// Baselines: what users run today, as plans of ours, so that one simulator rates them all.
// docs/baselines.md says for each how it was rebuilt and where it differs from its original.
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

/// How the runtime of that system orders a stage.
enum class Discipline : std::uint8_t {
  kOneFOneB,        ///< Megatron's 1F1B
  kSlicedOneFOneB,  ///< 1F1B over slices, a pack's backward slices in reverse
  kListSchedule,    ///< whatever can run, a backward first, under the memory cap
};

struct BaselinePlan {
  StepPlan plan;
  Discipline discipline = Discipline::kOneFOneB;
  /// kSlicedOneFOneB: slices that a stage has in flight more than the next stage.
  std::int32_t ahead_per_stage = 1;
  /// kOneFOneB, by replica: which microbatch of a plain 1F1B each MicroPack is, ascending, so that
  /// the replicas of merged ones meet in the same column; a replica does nothing in a column where
  /// it has none. Empty = every MicroPack's column is its index.
  std::vector<std::vector<std::int32_t>> columns = {};
};

struct Baseline {
  std::string_view name;   ///< on the command line and in tables
  std::string_view about;  ///< one line: what it does and who runs it
  BaselinePlan (*plan)(const Job& job, const SequenceLengths& lengths,
                       const RecomputingCosts& cost);
  bool cuts = false;    ///< sequences, at any token
  bool merges = false;  ///< MicroPacks of several replicas
};

/// In the order in which tables list them.
[[nodiscard]] std::span<const Baseline> baselines();

/// Throws InvalidInput for an unknown name, naming the nearest.
[[nodiscard]] const Baseline& baseline_named(std::string_view name);

/// What most users run: whole documents in packs, which "packed" means wherever it is run or
/// compared with.
[[nodiscard]] const Baseline& packed_baseline();

/// The baseline's plan of the lengths, of which there may be none; check_plan accepts it. With
/// fewer packs than replicas some replicas have none. Deterministic. Throws InvalidInput when a
/// sequence exceeds the context, a length, the context or the number of replicas is below 1.
[[nodiscard]] BaselinePlan baseline_plan(const Baseline& baseline, const Job& job,
                                         const SequenceLengths& lengths,
                                         const RecomputingCosts& cost);

}  // namespace slimpack
