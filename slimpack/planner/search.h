// Search: rates candidate plans under a memory cap and keeps the best.
#pragma once

#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// What every candidate of a step shares.
struct SearchProblem {
  const CostModel& cost;
  const SequenceLengths& lengths;
  StageLayout layout;
  std::optional<Bytes> memory_cap;
};

/// Packs with their orders, and what is known of them.
struct RatedPlan {
  PackPlan packs;
  Schedule schedule;
  Nanos makespan;
  Bytes memory;  ///< highest of any stage, in any timing
};

/// The most bytes that any stage needs, and which one that is (ties: the first).
struct StageNeed {
  Bytes bytes;
  StageId stage;
};
[[nodiscard]] StageNeed largest_need(const std::vector<Bytes>& by_stage);

/// The packs of a candidate. `pacing` is the stage whose times the cut balances.
[[nodiscard]] PackPlan cut_candidate(const SearchProblem& problem, StageId pacing,
                                     const Candidate& candidate);

/// The stage with the most work.
[[nodiscard]] StageId pacing_stage(const SearchProblem& problem);

/// Compares candidates, the one with the least lower bound first, until no bound is below the best
/// makespan found. For each it makes list schedules under several caps, because a smaller one
/// sometimes gives the better order; which caps depends on the candidate alone, so a larger
/// `memory_cap` never leads to a longer makespan.
class Search {
 public:
  /// Keeps a reference to the problem.
  explicit Search(const SearchProblem& problem) : problem_(problem) {}

  /// REQUIRES: called once, with at least one candidate.
  void run(const std::vector<Candidate>& candidates);

  [[nodiscard]] const std::optional<RatedPlan>& best() const { return best_; }
  /// The least memory of any candidate. REQUIRES: none fits.
  [[nodiscard]] const StageNeed& least_need() const { return *least_need_; }

 private:
  struct Tasks {
    PackPlan packs;
    TaskTimes times;
    Nanos bound;
  };
  void consider(const Tasks& tasks);
  /// Keeps the schedule if it fits and is the best so far.
  void rate(const Tasks& tasks, const TaskBytes& bytes, Schedule schedule, Bytes memory);

  const SearchProblem& problem_;
  std::optional<RatedPlan> best_;
  std::optional<StageNeed> least_need_;
};

}  // namespace slimpack
