// Baseline search: the best step of some baselines over their tunings and recomputations.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/step_problem.h"

namespace slimpack {

/// A search for the best step of some baselines. Keeps references.
struct BaselineRequest {
  StepQuestion step;
  std::span<const Baseline> baselines;
  std::vector<RecomputeChoice> recomputations;  ///< in the order of their time
  bool tuned = true;                            ///< false: the published settings only
  std::int32_t most_merged = 1;                 ///< the most replicas that share a pack
  bool exchange_context = false;                ///< baselines that exchange attention may do so
  /// Only steps below this makespan are of use.
  std::optional<Nanos> below = std::nullopt;
  std::function<void()> tick = nullptr;  ///< called for each tuning, if set

  /// Bounds know no exchange of attention, so they say nothing of such a baseline.
  [[nodiscard]] bool exchanges(const Baseline& baseline) const {
    return exchange_context && baseline.traits.exchanges;
  }
};

/// All baselines as candidates of ours: every tuning, every recomputation of the choices.
[[nodiscard]] BaselineRequest all_baselines(const StepQuestion& question);

/// Whether plans of the planner may have several stages a rank.
[[nodiscard]] bool interleaves(PlannerKind planner);

/// The baseline that choices.planner names, any but packed. It shares packs between as many
/// replicas as the costs know. Throws InvalidInput if the job has several stages a rank, and the
/// baseline does not interleave.
[[nodiscard]] BaselineRequest named_baseline(const StepQuestion& question);

struct BaselineSearchResult {
  std::optional<RatedPlan> step;  ///< keeps the cap; with its prediction
  /// Without a step, where the request has no `below`: the step that is least above the cap.
  std::optional<RatedPlan> leanest;
  std::optional<RankNeed> least_need;  ///< of `leanest`
  Tuning tuning;                       ///< of the one or the other
};

/// The shortest step of a baseline that keeps the cap, merges no more replicas than asked and is
/// shorter than `below`. There is none where a sequence is longer than the job's context. Layers of
/// a baseline that does not mix have one recomputation. Packs, dealing and slices are those of the
/// recomputation with the least time. Deterministic; ties: the first baseline and tuning.
///
/// Kinds, packs and dealings whose bounds are no better than the best step so far are not made,
/// ordered or simulated. So the bounds cost most: O(sequences · (stages + sizes of packs)).
[[nodiscard]] BaselineSearchResult search_baselines(const BaselineRequest& request);

}  // namespace slimpack
