// Unit problem: a unit to cut and order, and what becomes of one candidate: a trial.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/solver/unit_cut.h"

namespace slimpack {

/// The search of one unit. Keeps references to request and unit.
struct UnitProblem {
  const SearchRequest& request;
  const Unit& unit;
  CandidateSpace space;
  UnitCost cost;                            ///< on the rank that paces the unit
  std::vector<Candidate> first;             ///< what it begins with: hints come first
  std::vector<SearchDirection> directions;  ///< of a round of `refine`
  std::size_t rounds = 1;                   ///< of `refine`; 0: the request names its candidates
  /// Candidates with fewer MicroPacks never fit and are not looked at, where one replica has named
  /// candidates: nobody asks then what they would need or would take.
  int fewest_packs = 1;

  [[nodiscard]] const StepProblem& step() const { return request.problem; }
};

/// A candidate that was looked at.
struct UnitTrial {
  Candidate candidate;
  std::vector<ReplicaPacks> replicas;  ///< empty before it is worth cutting and after the ladder
  Nanos bound;  ///< no schedule of them is shorter; of an uncut one: the least to be expected
  double score = std::numeric_limits<double>::infinity();  ///< as Favourites::average
  double free = std::numeric_limits<double>::infinity();   ///< its makespan without a cap
  std::optional<RankNeed> need = {};                       ///< its least memory, once it is known
};

/// `hints`: candidates to begin with.
[[nodiscard]] UnitProblem unit_problem(const SearchRequest& request, const Unit& unit,
                                       const std::vector<Candidate>& hints);

/// A trial of these packs, by replica of the unit.
[[nodiscard]] UnitTrial trial_of(const UnitProblem& problem, const Candidate& candidate,
                                 std::vector<PackPlan> packs);

/// A trial of the unit, cut as the candidate says.
[[nodiscard]] UnitTrial cut_trial(const UnitProblem& problem, const Candidate& candidate);

/// Fills in the bytes of the trial's packs, which trials are kept without, to save memory. Keeps a
/// reference to the packs.
[[nodiscard]] ListScheduler scheduler_of(const UnitProblem& problem, UnitTrial& trial);

/// Whether the offloaded rows of all replicas fit into pinned host memory.
[[nodiscard]] bool fits_host(const UnitProblem& problem, const UnitTrial& trial,
                             const Schedule& order);

}  // namespace slimpack
