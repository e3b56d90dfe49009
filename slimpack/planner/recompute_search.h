// Recompute search: the best step over the recomputations that layers may have.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "slimpack/planner/planner.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/planner/step_shares.h"

namespace slimpack {

/// The least memory that a rank needs with a choice of recomputation.
struct LeastNeed {
  RankNeed need;
  RecomputeByLayer recompute;
};

/// The best step of several searches.
struct BestStep {
  /// Its prediction has at least the makespan; without `busy` it has nothing else.
  std::optional<RatedPlan> step;
  std::optional<LeastNeed> least;  ///< of the choices that do not fit, as far as it is known

  void keep_less(const LeastNeed& other);
  /// Keeps the shorter step, the own one if both are equally long.
  void keep_shorter(BestStep other);
};

/// All searches for a step share these.
struct SearchBasis {
  std::vector<RecomputeChoice> recomputations;  ///< the quickest first
  StepShares shares;
  std::function<void()> progress;  ///< told by the thread that made the basis alone
};

/// `progress` may be empty. Cost: as recompute_choices and step_shares.
[[nodiscard]] SearchBasis search_basis(const StepQuestion& question,
                                       const std::function<void()>& progress);

/// The quickest policy is explored in any case, and the others are cut as was best for it. More
/// recomputation takes longer, and memory hinders it less: somewhere between is the best. Where
/// memory makes even that notably longer, each policy for all layers is searched with cuts of its
/// own. Only where nothing fits are all searched to the end, to find the memory that they would
/// need. A mixture with the same cuts needs no less than the part of it that keeps less. `threads`
/// change nothing about the result.
/// Where a step is known, only steps `below` its makespan are looked for.
[[nodiscard]] BestStep search_recomputations(const StepQuestion& question, const SearchBasis& basis,
                                             const SearchDepth& depth, int threads,
                                             std::optional<Nanos> below = std::nullopt);

}  // namespace slimpack
