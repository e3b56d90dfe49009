// Unit search: looks for the best way to cut and order one unit, candidate by candidate.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/planner/unit_problem.h"
#include "slimpack/schedule/list_scheduler.h"

namespace slimpack {

/// A list schedule of a unit, with the packs that it orders.
struct RatedUnit : ListScheduler::Result {
  Candidate candidate;
  std::vector<PackPlan> packs;  ///< by replica of the unit, in sequence ids of its own
};

/// The best candidate by one measure.
struct Favourite {
  Candidate candidate;
  double score = std::numeric_limits<double>::infinity();

  void consider(const Candidate& other, double other_score);
};

/// The best by makespan, in the order in which later rounds begin from them.
struct Favourites {
  Favourite average;  ///< of the makespans without a cap and under a tight one
  Favourite uncapped;
  Favourite tight;
  Favourite medium;

  [[nodiscard]] std::array<const Favourite*, 4> all() const {
    return {&average, &uncapped, &tight, &medium};
  }
};

/// The numbers of MicroPacks between which a coarse candidate has a chance.
struct CoarseLimits {
  int fewest = 0;
  int most = std::numeric_limits<int>::max();
  Nanos bound;  ///< of a candidate with more than the most, for which overheads alone are too much
};

/// The findings of a unit's search so far. `explore`, `refine` and `climb` add to them.
struct UnitKnown {
  std::deque<Candidate> queue;  ///< candidates to look at
  bool coarse = true;           ///< whether the coarse candidates have been queued
  std::size_t turn = 0;         ///< the directions that `refine` has begun, in all rounds
  CoarseLimits limits;
  std::vector<UnitTrial> trials;
  std::size_t climbed = 0;  ///< so many of the trials have been on the ladder
  Favourites favourites;
  Favourite leanest;                   ///< by its least memory
  std::optional<RatedUnit> best;       ///< of the schedules that fit
  std::optional<RankNeed> least_need;  ///< of the trials that have been on the ladder

  /// Best candidate by score, whether it fits or not. REQUIRES: a trial.
  [[nodiscard]] const Candidate& favourite() const { return favourites.average.candidate; }
  /// The shortest makespan found without a cap. REQUIRES: a trial.
  [[nodiscard]] double free_makespan() const { return favourites.uncapped.score; }
  /// Nothing but the ladder is left.
  [[nodiscard]] bool explored() const { return queue.empty(); }
};

/// Findings before anything was looked at.
[[nodiscard]] UnitKnown nothing_known(const UnitProblem& problem);

// A search explores, refines, then climbs. With one replica the answer is the best of a set that
// the memory cap only filters. So a larger cap never leads to a longer makespan. With several
// replicas no such promise holds for the step.

/// Looks at the next candidates that the search begins with, until one has a chance. They are cut,
/// and scheduled without a cap and under a tight cap. Both makespans together say which is best. A
/// candidate whose bound says that it cannot be better is put off. So the path of the search does
/// not depend on the memory cap. Where the request names its candidates, coarse ones follow only if
/// none of them fits. Result: whether a candidate had a chance.
bool explore(const UnitProblem& problem, UnitKnown& known);

/// Looks at the next neighbours of the best candidate, until one has a chance, one direction after
/// the other. Further rounds look more widely around the best candidates: those without a cap,
/// under a medium cap and under a tight cap. Result: whether a candidate had a chance.
/// REQUIRES: explored until none had a chance.
bool refine(const UnitProblem& problem, UnitKnown& known);

/// Schedules the next trial whose bound is below the best makespan that fits under a ladder of
/// caps, because a smaller cap sometimes gives the better order. Each rung is tried with backwards
/// first and with forwards first, which keeps the stages supplied where memory is scarce. With
/// several replicas the ladder leads down from the job's cap, and only the candidates that looked
/// best are on it. REQUIRES: explored(), not exhausted.
void climb(const UnitProblem& problem, UnitKnown& known);

/// Where the request names candidates: has the search go on with coarse ones, and around the best.
/// Result: false where it has looked at coarse ones before.
bool widen(UnitProblem& problem, UnitKnown& known);

/// Whether nothing is left to look at.
[[nodiscard]] bool exhausted(const UnitProblem& problem, const UnitKnown& known);

/// Schedules the first hint under the job's cap alone, and keeps a schedule that is no longer than
/// `enough`. REQUIRES: a hint.
void glance(const UnitProblem& problem, UnitKnown& known, Nanos enough);

/// Rates packs of another solver, ladder included. REQUIRES: valid packs of the unit, which is a
/// single replica; a trial.
void rate_packs(const UnitProblem& problem, UnitKnown& known, PackPlan packs);

/// The candidates that were best by some measure or needed least memory, each once, the favourite
/// first. They do not depend on the memory cap.
[[nodiscard]] std::vector<Candidate> favourites(const UnitProblem& problem, const UnitKnown& known);

}  // namespace slimpack
