#include "slimpack/planner/recut.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/planner/cut_lanes.h"
#include "slimpack/planner/unit_problem.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

/// Shares of the way to the next cut by which a cut moves, and of a MicroPack where one is added.
constexpr double kShifts[] = {0.5, -0.5, 0.25, -0.25, 0.1, -0.1, 0.04, -0.04};
constexpr double kAdded[] = {0.5, 0.25, 0.75};
/// The caps that schedules are tried under, as shares of the job's cap: the search may have found
/// the step under a lower one.
constexpr double kCapShares[] = {1, 0.85, 0.72, 0.61, 0.52, 0.44, 0.38};
/// Ramps: MicroPacks that grow up to the middle of the pass and shrink from there on. So many times
/// the MicroPacks that the unit has, the share of the largest that the first one has, and the
/// shortest sequences ahead.
constexpr double kRecutPacks[] = {0.75, 0.55, 1, 0.4};
constexpr double kRecutTapers[] = {0.12, 0.25};
constexpr int kRecutShort[] = {16, 4};
/// With more effort: so many moves in a row may make a unit slower, the first by up to this share
/// of its time.
constexpr int kDetour = 400;
constexpr double kMostSlower = 0.02;

/// Lanes that were tried, and what becomes of them.
struct Tried {
  std::vector<CutLane> lanes;
  UnitTrial trial;
  ListScheduler::Result listed;
  Nanos end;  ///< of the step, if all units were like this one
};

/// The step's end with the unit's replicas alone. Bytes are not needed.
Nanos end_of(const UnitTrial& trial, const ListScheduler::Result& listed) {
  std::vector<Schedule> orders;
  for (const ReplicaPacks& replica : trial.replicas)
    orders.push_back(own_order(listed.schedule, replica.packs));
  return simulated_makespan(trial.replicas, orders);
}

/// The most that comes after the last action.
Nanos most_after(const UnitTrial& trial) {
  Nanos most, last;
  for (const ReplicaPacks& replica : trial.replicas) {
    const TaskTimes& times = replica.times;
    for (std::size_t r = 0; r < times.ranks(); ++r)
      for (const Pass pass : {Pass::kBackward, Pass::kWeightGradient})
        most = std::max(most, times.reduce_after(pass, r));
    last = std::max(last, std::ranges::max(times.step_end));
  }
  return most + last;
}

/// A move of one lane, or of all lanes of its group size and pass.
struct LaneMove {
  std::size_t lane = 0;
  bool together = false;
  CutMove move;
};

class UnitRecut {
 public:
  /// Keeps references. REQUIRES: as recut.
  UnitRecut(const SearchRequest& request, const Unit& unit, RatedUnit& rated)
      : problem_(unit_problem(request, unit, {rated.candidate})), rated_(rated) {
    end_ = rated.makespan + most_after(trial_of(problem_, rated.candidate, rated.packs));
  }

  /// The step's end, if all units were like this one; until `begin` the latest that it can be.
  [[nodiscard]] Nanos end() const { return end_; }

  /// Prepares a unit that may be the slowest; most never are. False: that was done before.
  bool begin() {
    if (std::exchange(begun_, true)) return false;
    UnitTrial trial = trial_of(problem_, rated_.candidate, rated_.packs);
    choose_policy(trial);
    end_ = slimpack::end_of(trial, rated_);
    auto lanes = cut_lanes(problem_.unit, rated_.packs);
    if (lanes) lanes_ = *std::move(lanes);
    list_moves();
    return true;
  }

  /// Cuts the unit anew as a ramp, if one is faster. Tried once.
  bool ramp(std::int64_t& actions) {
    if (std::exchange(ramped_, true)) return false;
    bool better = false;
    const int packs = rated_.candidate.cut.fluid.packs;
    for (const int short_first : kRecutShort)
      for (const double taper : kRecutTapers)
        for (const double factor : kRecutPacks) {
          Candidate candidate = rated_.candidate;
          FluidCutOptions& cut = candidate.cut.fluid;
          cut.packs = std::max(2, static_cast<int>(std::lround(factor * packs)));
          cut.taper_front = cut.taper_back = cut.packs / 2;
          cut.taper = taper;
          cut.fill = false;
          candidate.cut.short_first = short_first;
          if (actions > 0) better |= try_cut(candidate, actions);
        }
    return better;
  }

  /// Tries each move once, until one makes the unit faster. False: none does, or no actions are
  /// left.
  bool improve(std::int64_t& actions) {
    for (std::size_t tried = 0; tried < moves_.size() && actions > 0; ++tried) {
      auto better = after(lanes_, moves_[next_ % moves_.size()], end_ - Nanos(1), actions);
      if (better) {
        keep(*std::move(better));
        return true;  // the same move comes next
      }
      next_ = (next_ + 1) % moves_.size();
    }
    return false;
  }

  /// Makes random moves, of which each may make the unit a little slower, the later the less.
  /// False: they lead to nothing faster.
  bool detour(Rng& rng, std::int64_t& actions) {
    std::vector<CutLane> lanes = lanes_;
    Nanos at = end_;
    actions -= kDetour;  // so that detours end where no move can be made
    for (int i = 0; i < kDetour && actions > 0 && !moves_.empty(); ++i) {
      const double slower = kMostSlower * (1 - static_cast<double>(i) / kDetour) * rng.uniform();
      const Nanos limit(std::llround((1 + slower) * static_cast<double>(at.count())));
      auto next = after(lanes, moves_[rng.below(moves_.size())], limit, actions);
      if (!next) continue;
      if (next->end < end_) {
        keep(*std::move(next));
        return true;
      }
      lanes = std::move(next->lanes);
      at = next->end;
    }
    return false;
  }

 private:
  bool try_cut(const Candidate& candidate, std::int64_t& actions) {
    UnitTrial trial = cut_trial(problem_, candidate);
    std::vector<PackPlan> packs;
    for (const ReplicaPacks& replica : trial.replicas) packs.push_back(replica.packs);
    auto lanes = cut_lanes(problem_.unit, packs);
    if (!lanes) return false;
    auto tried = scheduled(*std::move(lanes), std::move(trial), end_ - Nanos(1), actions);
    if (!tried) return false;
    keep(*std::move(tried));
    return true;
  }

  /// The rule and the caps under which list scheduling comes nearest to the unit's schedule.
  void choose_policy(UnitTrial& trial) {
    const ListScheduler scheduler = scheduler_of(problem_, trial);
    const std::optional<Bytes>& cap = problem_.step().memory_cap;
    Nanos best(std::numeric_limits<std::int64_t>::max());
    const auto consider = [&](std::optional<Bytes> limit, Pass first) {
      const auto found = scheduler.run(caps(scheduler, limit), policy(scheduler, first, best));
      if (!found || found->makespan >= best || !fits(found->memory)) return;
      best = found->makespan;
      cap_ = limit;
      first_ = first;
    };
    consider(std::nullopt, Pass::kBackward);
    for (const Pass first : {Pass::kBackward, Pass::kForward})
      for (const double share : kCapShares)
        if (cap && best > rated_.makespan)
          consider(Bytes(std::llround(share * static_cast<double>(cap->count()))), first);
  }

  static std::vector<Bytes> caps(const ListScheduler& scheduler, std::optional<Bytes> cap) {
    if (!cap) return {};
    return std::vector<Bytes>(scheduler.least_memory().size(), *cap);
  }

  [[nodiscard]] ListPolicy policy(const ListScheduler& scheduler, Pass first, Nanos limit) const {
    const std::int32_t split = rated_.candidate.split_per_stage * scheduler.ranks();
    return {first, std::max(0, scheduler.backwards() - split), limit};
  }

  [[nodiscard]] bool fits(const std::vector<Bytes>& memory) const {
    const std::optional<Bytes>& cap = problem_.step().memory_cap;
    return !memory.empty() && (!cap || largest_need(memory).bytes <= *cap);
  }

  /// All moves of these lanes, the first cuts first.
  void list_moves() {
    moves_.clear();
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      const auto alike = [&](const CutLane& other) {
        return other.pass == lanes_[l].pass && other.replicas == lanes_[l].replicas;
      };
      if (std::ranges::count_if(lanes_, alike) > 1) {
        if (std::ranges::find_if(lanes_, alike) == lanes_.begin() + static_cast<std::ptrdiff_t>(l))
          add_moves(l, true);
        if (problem_.request.depth.effort == 1) continue;
      }
      add_moves(l, false);
    }
  }

  void add_moves(std::size_t lane, bool together) {
    for (std::size_t c = 0; c <= lanes_[lane].cuts.size(); ++c) {
      for (const double share : kAdded)
        moves_.push_back({lane, together, {CutMove::Kind::kAdd, c, share}});
      if (c == lanes_[lane].cuts.size()) return;
      moves_.push_back({lane, together, {CutMove::Kind::kDrop, c, 0}});
      for (const double share : kShifts)
        moves_.push_back({lane, together, {CutMove::Kind::kShift, c, share}});
    }
  }

  /// The lanes after a move, if they fit and end the step at the limit or before.
  [[nodiscard]] std::optional<Tried> after(std::vector<CutLane> lanes, const LaneMove& move,
                                           Nanos limit, std::int64_t& actions) const {
    const Tokens granularity = problem_.step().choices.granularity;
    bool changed = false;
    for (std::size_t l = move.lane; l < lanes.size(); ++l)
      if (l == move.lane || (move.together && lanes[l].pass == lanes[move.lane].pass &&
                             lanes[l].replicas == lanes[move.lane].replicas))
        changed |= move.move.apply(lanes[l], granularity);
    if (!changed) return std::nullopt;
    UnitTrial trial = trial_of(problem_, rated_.candidate, packs_of(problem_.unit, lanes));
    return scheduled(std::move(lanes), std::move(trial), limit, actions);
  }

  /// The trial of these lanes, if it fits and ends the step at the limit or before.
  [[nodiscard]] std::optional<Tried> scheduled(std::vector<CutLane> lanes, UnitTrial trial,
                                               Nanos limit, std::int64_t& actions) const {
    for (const ReplicaPacks& replica : trial.replicas)
      actions -= static_cast<std::int64_t>(
          (replica.packs.forward.size() + replica.packs.backward.size()) * replica.times.ranks());
    const Nanos last = limit - least_after(trial);
    if (trial.bound > last) return std::nullopt;
    const ListScheduler scheduler = scheduler_of(problem_, trial);
    auto listed = scheduler.run(caps(scheduler, cap_), policy(scheduler, first_, last));
    if (!listed || !fits(listed->memory) || !fits_host(problem_, trial, listed->schedule))
      return std::nullopt;
    const Nanos end = slimpack::end_of(trial, *listed);
    if (end > limit) return std::nullopt;
    return Tried{std::move(lanes), std::move(trial), *std::move(listed), end};
  }

  /// The least that comes after the last action.
  static Nanos least_after(const UnitTrial& trial) {
    const TaskTimes& times = trial.replicas.front().times;
    Nanos least = times.least_reduce(0);
    for (std::size_t r = 1; r < times.ranks(); ++r) least = std::min(least, times.least_reduce(r));
    return least + std::ranges::max(times.step_end);
  }

  void keep(Tried tried) {
    static_cast<ListScheduler::Result&>(rated_) = std::move(tried.listed);
    for (std::size_t i = 0; i < rated_.packs.size(); ++i)
      rated_.packs[i] = std::move(tried.trial.replicas[i].packs);
    lanes_ = std::move(tried.lanes);
    end_ = tried.end;
    list_moves();
  }

  UnitProblem problem_;
  RatedUnit& rated_;
  std::vector<CutLane> lanes_;
  Nanos end_;
  std::optional<Bytes> cap_;
  Pass first_ = Pass::kBackward;
  bool begun_ = false;
  bool ramped_ = false;
  std::vector<LaneMove> moves_;
  std::size_t next_ = 0;  ///< of the moves
};

}  // namespace

void recut(const SearchRequest& request, std::int64_t actions, StepSolution& solution) {
  std::vector<std::unique_ptr<UnitRecut>> units;
  for (std::size_t u = 0; u < solution.units.size() && actions > 0; ++u)
    units.push_back(std::make_unique<UnitRecut>(request, solution.units[u], solution.rated[u]));
  Rng rng(1);
  while (actions > 0 && !out_of_time(request.depth)) {
    UnitRecut& slowest =
        **std::ranges::max_element(units, {}, [](const auto& unit) { return unit->end(); });
    if (slowest.begin() || slowest.ramp(actions) || slowest.improve(actions)) continue;
    if (request.depth.effort == 1) break;
    while (actions > 0 && !out_of_time(request.depth) && !slowest.detour(rng, actions)) continue;
  }
  solution.makespan = std::ranges::max_element(solution.rated, {}, &RatedUnit::makespan)->makespan;
}

}  // namespace slimpack
