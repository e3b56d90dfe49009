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
      space_(candidate_space(unit, problem.job.layout.stages(), problem.choices.granularity,
                             problem.choices.search)),
      cost_(unit_cost(problem, problem.pacing[unit.replicas.front().replica.index()].stage)),
      last_phase_(problem.candidates.empty() ? problem.choices.search.directions.size() *
                                                   static_cast<std::size_t>(problem.depth.effort)
                                             : 0) {
  space_.split = problem.cost.weight_gradient != EdgeTime();
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

void UnitSearch::next_phase() {
  const std::vector<SearchDirection>& directions = problem_.choices.search.directions;
  if (++phase_ > last_phase_) {
    std::stable_sort(seen_.begin(), seen_.end(),
                     [](const Tasks& a, const Tasks& b) { return a.bound < b.bound; });
    return;
  }
  const SearchDirection direction = directions[(phase_ - 1) % directions.size()];
  if (in_first_round())
    enqueue(neighbours(favourite(), space_, direction));
  else
    for (const Favourite* favourite : favourites_.all())
      enqueue(neighbours(favourite->candidate, space_, direction, true));
}

std::vector<Candidate> UnitSearch::favourites() const {
  std::vector<Candidate> out;
  const auto add = [&](const Favourite& favourite) {
    if (std::isfinite(favourite.score) &&
        std::find(out.begin(), out.end(), favourite.candidate) == out.end())
      out.push_back(favourite.candidate);
  };
  for (const Favourite* favourite : favourites_.all())
    // In the first round schedules under a tight cap are given up against the best that fits.
    if (favourite != &favourites_.tight || problem_.depth.effort > 1) add(*favourite);
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
    while (queue_.empty() && !explored()) next_phase();
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
    tasks.times.push_back(task_times(problem_.cost, problem_.job.layout, tasks.packs[i],
                                     replication_of(problem_.job, unit_.replicas[i].replica)));
    tasks.bound = std::max(tasks.bound, actions_lower_bound(tasks.packs[i], tasks.times.back()));
  }
  return tasks;
}

std::vector<TaskBytes> UnitSearch::bytes_of(const std::vector<PackPlan>& packs) const {
  std::vector<TaskBytes> bytes;
  for (std::size_t i = 0; i < packs.size(); ++i)
    bytes.push_back(
        task_bytes(problem_.cost, problem_.job.layout, packs[i], unit_.replicas[i].lengths));
  return bytes;
}

void UnitSearch::Favourite::consider(const Candidate& other, double other_score) {
  if (other_score >= score) return;
  score = other_score;
  candidate = other;
}

bool UnitSearch::explore(const Candidate& candidate) {
  if (phase_ == 0 && candidate.cut.fluid.packs > too_many_packs_) {
    Tasks& uncut = seen_.emplace_back();
    uncut.candidate = candidate;
    uncut.bound = too_many_bound_;
    return false;
  }
  const Tasks& tasks =
      seen_.emplace_back(tasks_of(candidate, cut_unit(unit_, cost_, candidate.cut)));
  if (!problem_.candidates.empty() && seen_.size() > 1 && tasks.bound >= best_makespan())
    return false;
  const auto hopeless = [&](const Favourite* favourite) {
    return static_cast<double>(tasks.bound.count()) >= favourite->score;
  };
  if (in_first_round() ? hopeless(&favourites_.average)
                       : std::ranges::all_of(favourites_.all(), hopeless)) {
    if (phase_ == 0 && candidate.cut.fluid.packs > favourite().cut.fluid.packs) {
      too_many_packs_ = candidate.cut.fluid.packs;
      too_many_bound_ = tasks.bound;
    }
    return false;
  }
  const std::vector<TaskBytes> bytes = bytes_of(tasks.packs);
  const ListScheduler scheduler(views(tasks.packs, tasks.times, bytes));
  const Bytes free = score(tasks, scheduler);
  if (!problem_.job.memory_cap || free <= *problem_.job.memory_cap) return true;
  // The highest rung below the cap: what the ladder will find at best, known early.
  const Bytes least = largest_need(scheduler.least_memory()).bytes;
  int k = highest_rung();
  while (k >= 0 && rung(least, k) > *problem_.job.memory_cap) --k;
  if (k >= 0)
    keep(tasks, scheduler.run(uniform(scheduler, rung(least, k)),
                              policy(candidate, scheduler, Pass::kForward, best_makespan())));
  return true;
}

Bytes UnitSearch::score(const Tasks& tasks, const ListScheduler& scheduler) {
  const Bytes least = largest_need(scheduler.least_memory()).bytes;
  leanest_.consider(tasks.candidate, static_cast<double>(least.count()));
  const auto consider = [&](Favourite& favourite, Nanos makespan) {
    const auto score = static_cast<double>(makespan.count());
    favourite.consider(tasks.candidate, score);
    return score;
  };
  const SearchCaps& caps = problem_.choices.search.caps;
  const auto run = [&](const std::vector<Bytes>& cap, Pass first, double give_up_above) {
    const ListPolicy how =
        policy(tasks.candidate, scheduler, first, larger(give_up_above, best_makespan()));
    return scheduler.run(cap, how);
  };
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  auto free = run({}, Pass::kBackward, kNoLimit);
  const Bytes free_memory = largest_need(free->memory).bytes;
  const double free_score = consider(favourites_.uncapped, free->makespan);
  keep(tasks, std::move(free));

  // The average of both, or of both and the medium one, which counts as much: split backwards gain
  // most with some memory to spare.
  double limit = 2 * favourites_.average.score - free_score;
  double medium_score = 0;
  if (space_.split || problem_.depth.effort > 1) {
    auto medium =
        run(uniform(scheduler, times_factor(least, caps.medium)), Pass::kForward, kNoLimit);
    medium_score = consider(favourites_.medium, medium->makespan);
    if (space_.split) limit += 2 * (favourites_.average.score - medium_score);
    keep(tasks, std::move(medium));
  }
  auto tight = run(uniform(scheduler, times_factor(least, caps.tight)), Pass::kForward,
                   problem_.depth.effort > 1 ? std::max(limit, favourites_.tight.score) : limit);
  if (tight) {
    const double average = (free_score + consider(favourites_.tight, tight->makespan)) / 2;
    favourites_.average.consider(tasks.candidate,
                                 space_.split ? (average + medium_score) / 2 : average);
    keep(tasks, std::move(tight));
  }
  return free_memory;
}

Bytes UnitSearch::rung(Bytes least, int k) const {
  const SearchCaps& caps = problem_.choices.search.caps;
  return times_factor(least, std::pow(caps.rung, std::min(k, caps.rungs)) *
                                 std::pow(caps.high_rung, std::max(0, k - caps.rungs)));
}

int UnitSearch::highest_rung() const {
  const SearchCaps& caps = problem_.choices.search.caps;
  return space_.split ? caps.rungs + caps.high_rungs : caps.rungs;
}

void UnitSearch::climb_ladder(Tasks& tasks) {
  if (tasks.packs.empty())
    tasks = tasks_of(tasks.candidate, cut_unit(unit_, cost_, tasks.candidate.cut));
  if (tasks.bound >= best_makespan()) return;
  const std::vector<TaskBytes> bytes = bytes_of(tasks.packs);
  const ListScheduler scheduler(views(tasks.packs, tasks.times, bytes));
  const StageNeed need = largest_need(scheduler.least_memory());
  if (!least_need_ || need.bytes < least_need_->bytes) least_need_ = need;
  if (problem_.job.memory_cap && need.bytes > *problem_.job.memory_cap) return;

  for (const Pass first : {Pass::kBackward, Pass::kForward}) {
    if (first == Pass::kForward && !problem_.choices.search.caps.forwards_first) break;
    Bytes memory(std::numeric_limits<std::int64_t>::max());
    for (int k = highest_rung(); k >= 0; --k) {
      const Bytes cap = rung(need.bytes, k);
      // A schedule is the same under every cap from its own memory to the one it was made for.
      if (cap >= memory || (problem_.job.memory_cap && cap > *problem_.job.memory_cap)) continue;
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
  if (problem_.job.memory_cap && memory > *problem_.job.memory_cap) return;
  if (best_ &&
      std::tuple(result->makespan, memory, pack_count(tasks.packs)) >=
          std::tuple(best_->makespan, largest_need(best_->memory).bytes, pack_count(best_->packs)))
    return;
  best_ = RatedUnit{tasks.candidate, tasks.packs, std::move(result->schedule), result->makespan,
                    std::move(result->memory)};
}

}  // namespace slimpack
