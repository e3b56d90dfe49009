#include "slimpack/planner/unit_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/cost/memory_model.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

/// The tight cap that judges candidates, as a multiple of their least memory.
constexpr double kTight = 1.1;
/// Its place among the favourites.
constexpr std::size_t kTightMeasure = 2;
/// The medium one where backwards may be split, and of later rounds.
constexpr double kMedium = 2.0;
/// Caps on the ladder, as multiples of a candidate's least memory: 1, 1.04, 1.04², … about 2. Where
/// backwards may be split, more memory still helps: on by 1.2 each to about 9.
constexpr double kRung = 1.04;
constexpr int kRungs = 18;
constexpr double kHighRung = 1.2;
constexpr int kHighRungs = 8;

std::vector<ReplicaPacks> views(const std::vector<PackPlan>& packs,
                                const std::vector<TaskTimes>& times,
                                const std::vector<TaskBytes>& bytes) {
  std::vector<ReplicaPacks> out;
  for (std::size_t i = 0; i < packs.size(); ++i) out.push_back({packs[i], times[i], bytes[i]});
  return out;
}

Bytes times_factor(Bytes bytes, double factor) {
  return Bytes(static_cast<std::int64_t>(static_cast<double>(bytes.count()) * factor));
}

Bytes rung(Bytes least, int k) {
  return times_factor(
      least, std::pow(kRung, std::min(k, kRungs)) * std::pow(kHighRung, std::max(0, k - kRungs)));
}

/// The same cap on every stage.
std::vector<Bytes> uniform(const ListScheduler& scheduler, Bytes cap) {
  return std::vector<Bytes>(scheduler.least_memory().size(), cap);
}

constexpr Nanos kNever(std::numeric_limits<std::int64_t>::max());

ListPolicy policy(const Candidate& candidate, const ListScheduler& scheduler, Pass first,
                  Nanos give_up_above = kNever) {
  const std::int32_t split = candidate.split_per_stage * scheduler.stages();
  return {first, std::max(0, scheduler.backwards() - split), give_up_above};
}

/// The larger limit.
Nanos larger(double limit, Nanos other) {
  if (limit >= static_cast<double>(kNever.count())) return kNever;
  return std::max(Nanos(static_cast<std::int64_t>(std::ceil(limit))), other);
}

std::size_t pack_count(const std::vector<PackPlan>& packs) {
  std::size_t count = 0;
  for (const PackPlan& p : packs) count += p.forward.size() + p.backward.size();
  return count;
}

}  // namespace

UnitSearch::UnitSearch(const StepProblem& problem, const Unit& unit,
                       const std::vector<Candidate>& hints)
    : problem_(problem),
      unit_(unit),
      space_(candidate_space(unit, problem.layout.stages(), problem.granularity)),
      cost_(unit_cost(problem, problem.pacing[unit.replicas.front().replica.index()].stage)),
      last_stage_(problem.candidates.empty() ? kDirections * problem.effort : 0),
      favourites_(),
      leanest_{{}, std::numeric_limits<double>::infinity()} {
  space_.split = problem.cost.weight_gradient != EdgeTime();
  for (Favourite& favourite : favourites_)
    favourite.score = std::numeric_limits<double>::infinity();
  enqueue(hints);
  if (!problem.candidates.empty()) {
    enqueue(problem.candidates);
    return;
  }
  std::vector<Candidate> candidates = coarse_candidates(space_);
  if (!hints.empty()) {
    // What is near the hint is looked at first.
    const auto away = [&](const Candidate& c) {
      return std::abs(
          std::log2(static_cast<double>(c.cut.fluid.packs) / hints.front().cut.fluid.packs));
    };
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const Candidate& a, const Candidate& b) { return away(a) < away(b); });
  }
  enqueue(candidates);
}

void UnitSearch::enqueue(const std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates) {
    const auto same = [&](const Candidate& other) { return other == candidate; };
    if (std::any_of(queue_.begin(), queue_.end(), same) ||
        std::any_of(seen_.begin(), seen_.end(), [&](const Tasks& t) { return same(t.candidate); }))
      continue;
    queue_.push_back(candidate);
  }
}

void UnitSearch::next_stage() {
  const int direction = stage_++ % kDirections;
  if (explored())
    std::stable_sort(seen_.begin(), seen_.end(),
                     [](const Tasks& a, const Tasks& b) { return a.bound < b.bound; });
  else if (stage_ <= kDirections)
    enqueue(neighbours(favourite(), space_, direction));
  else
    for (const Favourite& favourite : favourites_)
      enqueue(neighbours(favourite.candidate, space_, direction, true));
}

std::vector<Candidate> UnitSearch::favourites() const {
  std::vector<Candidate> out;
  const auto add = [&](const Favourite& favourite) {
    if (std::isfinite(favourite.score) &&
        std::find(out.begin(), out.end(), favourite.candidate) == out.end())
      out.push_back(favourite.candidate);
  };
  for (std::size_t measure = 0; measure < favourites_.size(); ++measure)
    // In the first round schedules under a tight cap are given up against the best that fits.
    if (measure != kTightMeasure || problem_.effort > 1) add(favourites_[measure]);
  add(leanest_);
  return out;
}

void UnitSearch::advance() {
  SLIMPACK_CHECK(!exhausted());
  if (problem_.progress != nullptr) (*problem_.progress)();
  if (explored()) {
    climb_ladder(seen_[climbed_++]);
    return;
  }
  for (bool scored = false; !scored && !explored();) {
    const Candidate candidate = queue_.front();
    queue_.pop_front();
    scored = explore(candidate);
    while (queue_.empty() && !explored()) next_stage();
  }
}

void UnitSearch::consider_extra(PackPlan packs) {
  Tasks tasks = tasks_of(favourite(), {std::move(packs)});
  if (best_ && tasks.bound >= best_->makespan) return;
  const std::vector<TaskBytes> bytes = bytes_of(tasks.packs);
  const ListScheduler scheduler(views(tasks.packs, tasks.times, bytes));
  keep(tasks, scheduler.run({}, policy(tasks.candidate, scheduler, Pass::kBackward)));
  climb_ladder(tasks);
}

UnitSearch::Tasks UnitSearch::tasks_of(const Candidate& candidate,
                                       std::vector<PackPlan> packs) const {
  Tasks tasks;
  tasks.candidate = candidate;
  tasks.packs = std::move(packs);
  for (std::size_t i = 0; i < tasks.packs.size(); ++i) {
    tasks.times.push_back(task_times(problem_.cost, problem_.layout, tasks.packs[i],
                                     replication_of(problem_, unit_.replicas[i].replica)));
    tasks.bound = std::max(tasks.bound, actions_lower_bound(tasks.packs[i], tasks.times.back()));
  }
  return tasks;
}

std::vector<TaskBytes> UnitSearch::bytes_of(const std::vector<PackPlan>& packs) const {
  std::vector<TaskBytes> bytes;
  for (std::size_t i = 0; i < packs.size(); ++i)
    bytes.push_back(
        task_bytes(problem_.cost, problem_.layout, packs[i], unit_.replicas[i].lengths));
  return bytes;
}

void UnitSearch::Favourite::consider(const Candidate& other, double other_score) {
  if (other_score >= score) return;
  score = other_score;
  candidate = other;
}

bool UnitSearch::explore(const Candidate& candidate) {
  if (stage_ == 0 && candidate.cut.fluid.packs > too_many_packs_) {
    Tasks& uncut = seen_.emplace_back();
    uncut.candidate = candidate;
    uncut.bound = too_many_bound_;
    return false;
  }
  const Tasks& tasks =
      seen_.emplace_back(tasks_of(candidate, cut_unit(unit_, cost_, candidate.cut)));
  if (!problem_.candidates.empty() && seen_.size() > 1 && tasks.bound >= best_makespan())
    return false;
  const std::ptrdiff_t measures = stage_ <= kDirections ? 1 : favourites_.size();
  if (std::all_of(favourites_.begin(), favourites_.begin() + measures, [&](const Favourite& f) {
        return static_cast<double>(tasks.bound.count()) >= f.score;
      })) {
    if (stage_ == 0 && candidate.cut.fluid.packs > favourite().cut.fluid.packs) {
      too_many_packs_ = candidate.cut.fluid.packs;
      too_many_bound_ = tasks.bound;
    }
    return false;
  }
  const std::vector<TaskBytes> bytes = bytes_of(tasks.packs);
  const ListScheduler scheduler(views(tasks.packs, tasks.times, bytes));
  const Bytes free = score(tasks, scheduler);
  if (!problem_.memory_cap || free <= *problem_.memory_cap) return true;
  // The highest rung below the cap: what the ladder will find at best, known early.
  const Bytes least = largest_need(scheduler.least_memory()).bytes;
  int k = highest_rung();
  while (k >= 0 && rung(least, k) > *problem_.memory_cap) --k;
  if (k >= 0)
    keep(tasks, scheduler.run(uniform(scheduler, rung(least, k)),
                              policy(candidate, scheduler, Pass::kForward, best_makespan())));
  return true;
}

Bytes UnitSearch::score(const Tasks& tasks, const ListScheduler& scheduler) {
  const Bytes least = largest_need(scheduler.least_memory()).bytes;
  leanest_.consider(tasks.candidate, static_cast<double>(least.count()));
  const auto consider = [&](std::size_t measure, Nanos makespan) {
    const auto score = static_cast<double>(makespan.count());
    favourites_[measure].consider(tasks.candidate, score);
    return score;
  };
  const auto run = [&](const std::vector<Bytes>& caps, Pass first, double give_up_above) {
    const ListPolicy how =
        policy(tasks.candidate, scheduler, first, larger(give_up_above, best_makespan()));
    return scheduler.run(caps, how);
  };
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  auto free = run({}, Pass::kBackward, kNoLimit);
  const Bytes free_memory = largest_need(free->memory).bytes;
  const double free_score = consider(1, free->makespan);
  keep(tasks, std::move(free));

  // The average of both, or of both and the medium one, which counts as much: split backwards gain
  // most with some memory to spare.
  double limit = 2 * favourites_[0].score - free_score;
  double medium_score = 0;
  if (space_.split || problem_.effort > 1) {
    auto medium = run(uniform(scheduler, times_factor(least, kMedium)), Pass::kForward, kNoLimit);
    medium_score = consider(3, medium->makespan);
    if (space_.split) limit += 2 * (favourites_[0].score - medium_score);
    keep(tasks, std::move(medium));
  }
  auto tight = run(uniform(scheduler, times_factor(least, kTight)), Pass::kForward,
                   problem_.effort > 1 ? std::max(limit, favourites_[kTightMeasure].score) : limit);
  if (tight) {
    const double average = (free_score + consider(kTightMeasure, tight->makespan)) / 2;
    favourites_[0].consider(tasks.candidate, space_.split ? (average + medium_score) / 2 : average);
    keep(tasks, std::move(tight));
  }
  return free_memory;
}

int UnitSearch::highest_rung() const {
  return space_.split ? kRungs + kHighRungs : kRungs;
}

void UnitSearch::climb_ladder(Tasks& tasks) {
  if (tasks.packs.empty())
    tasks = tasks_of(tasks.candidate, cut_unit(unit_, cost_, tasks.candidate.cut));
  if (tasks.bound >= best_makespan()) return;
  const std::vector<TaskBytes> bytes = bytes_of(tasks.packs);
  const ListScheduler scheduler(views(tasks.packs, tasks.times, bytes));
  const StageNeed need = largest_need(scheduler.least_memory());
  if (!least_need_ || need.bytes < least_need_->bytes) least_need_ = need;
  if (problem_.memory_cap && need.bytes > *problem_.memory_cap) return;

  for (const Pass first : {Pass::kBackward, Pass::kForward}) {
    Bytes memory(std::numeric_limits<std::int64_t>::max());
    for (int k = highest_rung(); k >= 0; --k) {
      const Bytes cap = rung(need.bytes, k);
      // A schedule is the same under every cap from its own memory to the one it was made for.
      if (cap >= memory || (problem_.memory_cap && cap > *problem_.memory_cap)) continue;
      auto result = scheduler.run(uniform(scheduler, cap),
                                  policy(tasks.candidate, scheduler, first, best_makespan()));
      if (result) memory = largest_need(result->memory).bytes;
      keep(tasks, std::move(result));
    }
  }
}

Nanos UnitSearch::best_makespan() const {
  return std::min(best_ ? best_->makespan : kNever, problem_.below.value_or(kNever));
}

void UnitSearch::keep(const Tasks& tasks, std::optional<ListScheduler::Result> result) {
  if (!result) return;
  const Bytes memory = largest_need(result->memory).bytes;
  if (problem_.memory_cap && memory > *problem_.memory_cap) return;
  if (best_ &&
      std::tuple(result->makespan, memory, pack_count(tasks.packs)) >=
          std::tuple(best_->makespan, largest_need(best_->memory).bytes, pack_count(best_->packs)))
    return;
  best_ = RatedUnit{tasks.candidate, tasks.packs, std::move(result->schedule), result->makespan,
                    std::move(result->memory)};
}

}  // namespace slimpack
