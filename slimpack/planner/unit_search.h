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

/// Packs with their order, and what is known of them.
struct RatedUnit {
  Candidate candidate;
  std::vector<PackPlan> packs;  ///< by replica of the unit, ids of its own
  Schedule schedule;            ///< common order
  Nanos makespan;               ///< until the last action ends
  std::vector<Bytes> memory;    ///< by stage: the most that any replica holds, in any timing
};

/// 1. The coarse candidates, then, direction by direction, the neighbours of the best one, are cut
///    and scheduled without a cap and under a tight one. What is best is judged by both together,
///    and what cannot be better by its bound is put off, so that the way does not depend on the
///    memory cap.
/// 2. Further rounds do so more widely around the best without a cap, under a medium and under a
///    tight one.
/// 3. Last, every candidate whose bound is below the best makespan that fits is scheduled under a
///    ladder of caps, because a smaller one sometimes gives the better order; with backwards first
///    and with forwards first, which keeps the stages supplied where memory is scarce.
/// Where the problem names its candidates, they are scheduled under the ladder at once.
/// So the answer is the best of a set that the cap only filters: a larger `memory_cap` never leads
/// to a longer makespan.
class UnitSearch {
 public:
  /// Keeps references to problem and unit. `hints`: candidates to begin with.
  UnitSearch(const StepProblem& problem, const Unit& unit, const std::vector<Candidate>& hints);

  /// Considers the next candidate that has a chance. REQUIRES: not exhausted.
  void advance();
  /// Rates packs from elsewhere as a candidate, to the end. REQUIRES: valid packs of the unit,
  /// which is a single replica; advanced at least once.
  void consider_extra(PackPlan packs);
  [[nodiscard]] bool exhausted() const { return explored() && climbed_ == seen_.size(); }
  /// Nothing but the ladder is left.
  [[nodiscard]] bool explored() const { return phase_ > last_phase_; }

  [[nodiscard]] const std::optional<RatedUnit>& best() const { return best_; }
  /// Best candidate by score, whether it fits or not. REQUIRES: advanced at least once.
  [[nodiscard]] const Candidate& favourite() const { return favourites_.average.candidate; }
  /// Those that were best by any measure or needed least memory, each once: the favourite first.
  /// They do not depend on the memory cap.
  [[nodiscard]] std::vector<Candidate> favourites() const;
  /// The shortest makespan found without a cap. REQUIRES: advanced at least once.
  [[nodiscard]] double free_makespan() const { return favourites_.uncapped.score; }
  /// The least memory of any candidate. REQUIRES: exhausted and none fits.
  [[nodiscard]] const StageNeed& least_need() const { return *least_need_; }
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
    Favourite average;  ///< of both without a cap and under a tight one
    Favourite uncapped;
    Favourite tight;
    Favourite medium;

    [[nodiscard]] std::array<const Favourite*, 4> all() const {
      return {&average, &uncapped, &tight, &medium};
    }
  };

  /// A candidate with the packs that it gives, by replica; without while it is not worth cutting.
  struct Tasks {
    Candidate candidate;
    std::vector<PackPlan> packs;
    std::vector<TaskTimes> times;
    Nanos bound;  ///< of its makespan; without packs: the least that can be expected
  };

  [[nodiscard]] Tasks tasks_of(const Candidate& candidate, std::vector<PackPlan> packs) const;
  void enqueue(const std::vector<Candidate>& candidates);
  void next_phase();
  [[nodiscard]] bool in_first_round() const {
    return phase_ <= problem_.choices.search.directions.size();
  }
  /// Result: whether its bound left a chance, so that it was scored.
  bool explore(const Candidate& candidate);
  /// Result: the memory of the schedule without a cap.
  Bytes score(const Tasks& tasks, const ListScheduler& scheduler);
  /// The k-th cap of the ladder, 0 = the least.
  [[nodiscard]] Bytes rung(Bytes least, int k) const;
  [[nodiscard]] int highest_rung() const;
  void climb_ladder(Tasks& tasks);
  [[nodiscard]] std::vector<TaskBytes> bytes_of(const std::vector<PackPlan>& packs) const;
  /// Of the best so far, or what a solution has to be below.
  [[nodiscard]] Nanos best_makespan() const;
  /// Keeps the schedule if there is one, it fits and is the best so far.
  void keep(const Tasks& tasks, std::optional<ListScheduler::Result> result);

  const StepProblem& problem_;
  const Unit& unit_;
  CandidateSpace space_;
  UnitCost cost_;
  std::deque<Candidate> queue_;
  std::size_t phase_ = 0;  ///< 0 coarse, then the directions of each round, then the ladder
  std::size_t last_phase_;
  std::vector<Tasks> seen_;
  /// Of the coarse candidates, the fewest MicroPacks whose overheads alone are too much by their
  /// bound, and that. With more of them there is no need to cut before the ladder.
  int too_many_packs_ = std::numeric_limits<int>::max();
  Nanos too_many_bound_;
  std::size_t climbed_ = 0;  ///< of seen_, how many have been on the ladder
  Favourites favourites_;
  Favourite leanest_;  ///< by its least memory
  std::optional<RatedUnit> best_;
  std::optional<StageNeed> least_need_;
};

}  // namespace slimpack
