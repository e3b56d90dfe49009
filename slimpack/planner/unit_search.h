// Unit search: looks for the best way to cut and order one unit, candidate by candidate.
#pragma once

#include <array>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// A list schedule of a unit, with the packs that it orders.
struct RatedUnit : ListScheduler::Result {
  Candidate candidate;
  std::vector<PackPlan> packs;  ///< by replica of the unit, in sequence ids of its own
};

/// 1. The coarse candidates are cut, and scheduled without a cap and under a tight cap. So are, one
///    direction after the other, the neighbours of the best candidate. Both makespans together say
///    which is best. A candidate whose bound says that it cannot be better is put off. So the path
///    of the search does not depend on the memory cap.
/// 2. Further rounds look more widely around the best candidates: those without a cap, under a
///    medium cap and under a tight cap.
/// 3. Last, every candidate whose bound is below the best makespan that fits is scheduled under a
///    ladder of caps, because a smaller cap sometimes gives the better order. Each rung is tried
///    with backwards first and with forwards first, which keeps the stages supplied where memory is
///    scarce.
/// Where the request names its candidates, they are scheduled under the ladder at once; coarse
/// ones, too, where none of them fits. With one replica the answer is the best of a set that the
/// memory cap only filters. So a larger cap never leads to a longer makespan. With several replicas
/// no such promise holds for the step: then the ladder leads down from the job's cap, and only the
/// candidates that looked best are on it.
class UnitSearch {
 public:
  /// Keeps references to request and unit. `hints`: candidates to begin with.
  UnitSearch(const SearchRequest& request, const Unit& unit, const std::vector<Candidate>& hints);

  /// Schedules the first hint under the job's cap alone, and keeps a schedule that is no longer
  /// than `enough`.
  /// REQUIRES: a hint; called before anything else.
  void glance(Nanos enough);
  /// Considers the next candidate that has a chance. REQUIRES: not exhausted.
  void advance();
  /// Rates packs of another solver, ladder included. REQUIRES: valid packs of the unit, which is a
  /// single replica; advanced at least once.
  void consider_extra(PackPlan packs);
  [[nodiscard]] bool exhausted() const {
    return explored() && (climbed_ == seen_.size() || climbed_enough());
  }
  /// Nothing but the ladder is left.
  [[nodiscard]] bool explored() const { return phase_ > last_phase_; }

  [[nodiscard]] const std::optional<RatedUnit>& best() const { return best_; }
  /// Best candidate by score, whether it fits or not. REQUIRES: advanced at least once.
  [[nodiscard]] const Candidate& favourite() const { return favourites_.average.candidate; }
  /// The candidates that were best by some measure or needed least memory, each once, the favourite
  /// first. They do not depend on the memory cap.
  [[nodiscard]] std::vector<Candidate> favourites() const;
  [[nodiscard]] bool advanced() const { return !seen_.empty(); }
  /// The shortest makespan found without a cap. REQUIRES: advanced at least once.
  [[nodiscard]] double free_makespan() const { return favourites_.uncapped.score; }
  /// The least memory of any candidate. REQUIRES: exhausted and none fits.
  [[nodiscard]] const RankNeed& least_need() const { return *least_need_; }
  [[nodiscard]] const Unit& unit() const { return unit_; }

 private:
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

  /// A candidate that was looked at.
  struct Trial {
    Candidate candidate;
    std::vector<ReplicaPacks> replicas;  ///< empty before it is worth cutting and after the ladder
    Nanos bound;  ///< no schedule of them is shorter; of an uncut one: the least to be expected
    double score = std::numeric_limits<double>::infinity();  ///< as Favourites::average
    double free = std::numeric_limits<double>::infinity();   ///< its makespan without a cap
  };

  [[nodiscard]] Trial trial_of(const Candidate& candidate, std::vector<PackPlan> packs) const;
  [[nodiscard]] ListScheduler scheduler_of(const Trial& trial) const;
  /// Fills in the bytes of its packs, for a list scheduler. Trials are kept without, to save
  /// memory.
  void add_bytes(Trial& trial) const;
  void enqueue(const std::vector<Candidate>& candidates);
  void next_phase();
  [[nodiscard]] bool in_first_round() const { return phase_ <= directions_.size(); }
  /// Result: whether it was scored, because its bound left a chance.
  bool explore(const Candidate& candidate);
  /// Schedules the trial without a cap and under some, and judges it by that. Result: the average
  /// of these, infinity where it is sure not to be the best.
  [[nodiscard]] double score(Trial& trial, const ListScheduler& scheduler);
  /// Leaves coarse candidates out that have more MicroPacks than one that is clearly worse than
  /// another with fewer, by score and without a cap; or fewer than one that is worse than another
  /// with more.
  void narrow(const Trial& trial);
  /// The caps to schedule a trial under that needs so much, the highest first.
  [[nodiscard]] std::vector<Bytes> ladder(Bytes need) const;
  void climb_ladder(Trial& trial);
  [[nodiscard]] bool climbed_enough() const;
  /// A schedule has to be shorter than this: the best so far, or the request's limit.
  [[nodiscard]] Nanos best_makespan() const;
  /// Whether the offloaded rows of all replicas fit into pinned host memory.
  [[nodiscard]] bool fits_host(const Trial& trial, const Schedule& order) const;
  /// Keeps a schedule that fits and is the best so far.
  void keep(const Trial& trial, std::optional<ListScheduler::Result> result);

  const SearchRequest& request_;
  const StepProblem& problem_;  ///< of the request
  const Unit& unit_;
  CandidateSpace space_;
  std::vector<SearchDirection> directions_;  ///< of each round
  UnitCost cost_;
  std::deque<Candidate> queue_;
  std::size_t phase_ = 0;  ///< 0 coarse, then the directions of each round, then the ladder
  std::size_t last_phase_;
  bool tried_coarse_ = false;  ///< where the request names its candidates
  std::vector<Trial> seen_;
  /// The fewest MicroPacks of a coarse candidate whose bound says that overheads alone are too
  /// much, and that bound. Candidates of more MicroPacks need not be cut before the ladder.
  int too_many_packs_ = std::numeric_limits<int>::max();
  int too_few_packs_ = 0;  ///< likewise the most
  Nanos too_many_bound_;
  std::size_t climbed_ = 0;  ///< so many of seen_ have been on the ladder
  Favourites favourites_;
  Favourite leanest_;  ///< by its least memory
  std::optional<RatedUnit> best_;
  std::optional<RankNeed> least_need_;
};

}  // namespace slimpack
