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
/// The medium one of later rounds.
constexpr double kMedium = 1.5;
/// Caps on the ladder, as multiples of a candidate's least memory: 1, 1.04, 1.04², … about 2.
constexpr double kRung = 1.04;
constexpr int kRungs = 18;

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
  return times_factor(least, std::pow(kRung, k));
}

/// The same cap on every stage.
std::vector<Bytes> uniform(const ListScheduler& scheduler, Bytes cap) {
  return std::vector<Bytes>(scheduler.least_memory().size(), cap);
}

std::size_t pack_count(const std::vector<PackPlan>& packs) {
  std::size_t count = 0;
  for (const PackPlan& p : packs) count += p.forward.size() + p.backward.size();
  return count;
}

}  // namespace

UnitSearch::UnitSearch(const StepProblem& problem, const Unit& unit,
                       const std::vector<UnitCutOptions>& hints)
    : problem_(problem),
      unit_(unit),
      space_(candidate_space(unit, problem.layout.stages(), problem.granularity)),
      cost_(unit_cost(problem, problem.pacing[unit.replicas.front().replica.index()].stage)),
      favourites_() {
  for (Favourite& favourite : favourites_)
    favourite.score = std::numeric_limits<double>::infinity();
  enqueue(hints);
  std::vector<UnitCutOptions> candidates = coarse_candidates(space_);
  if (!hints.empty()) {
    // What is near the hint is looked at first.
    const auto away = [&](const UnitCutOptions& c) {
      return std::abs(std::log2(static_cast<double>(c.fluid.packs) / hints.front().fluid.packs));
    };
    std::stable_sort(
        candidates.begin(), candidates.end(),
        [&](const UnitCutOptions& a, const UnitCutOptions& b) { return away(a) < away(b); });
  }
  enqueue(candidates);
}

void UnitSearch::enqueue(const std::vector<UnitCutOptions>& candidates) {
  for (const UnitCutOptions& candidate : candidates) {
    const auto same = [&](const UnitCutOptions& other) { return other == candidate; };
    if (std::any_of(queue_.begin(), queue_.end(), same) ||
        std::any_of(seen_.begin(), seen_.end(), [&](const Tasks& t) { return same(t.candidate); }))
      continue;
    queue_.push_back(candidate);
  }
}

void UnitSearch::next_stage() {
  const int direction = stage_++ % kDirections;
  if (stage_ <= kDirections)
    enqueue(neighbours(favourite(), space_, direction));
  else if (!explored())
    for (const Favourite& favourite : favourites_)
      enqueue(neighbours(favourite.candidate, space_, direction, true));
  else
    std::stable_sort(seen_.begin(), seen_.end(),
                     [](const Tasks& a, const Tasks& b) { return a.bound < b.bound; });
}

void UnitSearch::advance() {
  SLIMPACK_CHECK(!exhausted());
  if (explored()) {
    climb_ladder(seen_[climbed_++]);
    return;
  }
  for (bool scored = false; !scored && !explored();) {
    const UnitCutOptions candidate = queue_.front();
    queue_.pop_front();
    scored = explore(candidate);
    while (queue_.empty() && !explored()) next_stage();
  }
}

void UnitSearch::consider_extra(PackPlan packs) {
  const Tasks tasks = tasks_of(favourite(), {std::move(packs)});
  if (best_ && tasks.bound >= best_->makespan) return;
  const std::vector<TaskBytes> bytes = bytes_of(tasks.packs);
  keep(tasks, *ListScheduler(views(tasks.packs, tasks.times, bytes)).run({}));
  climb_ladder(tasks);
}

UnitSearch::Tasks UnitSearch::tasks_of(const UnitCutOptions& candidate,
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

void UnitSearch::Favourite::consider(const UnitCutOptions& other, double other_score) {
  if (other_score >= score) return;
  score = other_score;
  candidate = other;
}

bool UnitSearch::explore(const UnitCutOptions& candidate) {
  const Tasks& tasks = seen_.emplace_back(tasks_of(candidate, cut_unit(unit_, cost_, candidate)));
  const std::ptrdiff_t measures = stage_ <= kDirections ? 1 : favourites_.size();
  if (std::all_of(favourites_.begin(), favourites_.begin() + measures, [&](const Favourite& f) {
        return static_cast<double>(tasks.bound.count()) >= f.score;
      }))
    return false;
  const std::vector<TaskBytes> bytes = bytes_of(tasks.packs);
  const ListScheduler scheduler(views(tasks.packs, tasks.times, bytes));
  const Bytes free = score(tasks, scheduler);
  if (!problem_.memory_cap || free <= *problem_.memory_cap) return true;
  // The highest rung below the cap: what the ladder will find at best, known early.
  const Bytes least = largest_need(scheduler.least_memory()).bytes;
  int k = kRungs;
  while (k >= 0 && rung(least, k) > *problem_.memory_cap) --k;
  if (k >= 0) keep(tasks, *scheduler.run(uniform(scheduler, rung(least, k)), {Pass::kForward}));
  return true;
}

Bytes UnitSearch::score(const Tasks& tasks, const ListScheduler& scheduler) {
  const Bytes least = largest_need(scheduler.least_memory()).bytes;
  const auto makespan = [](const ListScheduler::Result& result) {
    return static_cast<double>(result.makespan.count());
  };
  auto free = scheduler.run({});
  auto tight = scheduler.run(uniform(scheduler, times_factor(least, kTight)), {Pass::kForward});
  favourites_[0].consider(tasks.candidate, (makespan(*free) + makespan(*tight)) / 2);
  favourites_[1].consider(tasks.candidate, makespan(*free));
  favourites_[2].consider(tasks.candidate, makespan(*tight));
  if (problem_.effort > 1) {
    auto medium = scheduler.run(uniform(scheduler, times_factor(least, kMedium)), {Pass::kForward});
    favourites_[3].consider(tasks.candidate, makespan(*medium));
    keep(tasks, std::move(*medium));
  }
  const Bytes free_memory = largest_need(free->memory).bytes;
  keep(tasks, std::move(*free));
  keep(tasks, std::move(*tight));
  return free_memory;
}

void UnitSearch::climb_ladder(const Tasks& tasks) {
  if (best_ && tasks.bound >= best_->makespan) return;
  const std::vector<TaskBytes> bytes = bytes_of(tasks.packs);
  const ListScheduler scheduler(views(tasks.packs, tasks.times, bytes));
  const StageNeed need = largest_need(scheduler.least_memory());
  if (!least_need_ || need.bytes < least_need_->bytes) least_need_ = need;
  if (problem_.memory_cap && need.bytes > *problem_.memory_cap) return;

  for (const Pass first : {Pass::kBackward, Pass::kForward}) {
    Bytes memory(std::numeric_limits<std::int64_t>::max());
    for (int k = kRungs; k >= 0; --k) {
      const Bytes cap = rung(need.bytes, k);
      // A schedule is the same under every cap from its own memory to the one it was made for.
      if (cap >= memory || (problem_.memory_cap && cap > *problem_.memory_cap)) continue;
      auto result = scheduler.run(uniform(scheduler, cap), {first});
      memory = largest_need(result->memory).bytes;
      keep(tasks, std::move(*result));
    }
  }
}

void UnitSearch::keep(const Tasks& tasks, ListScheduler::Result result) {
  const Bytes memory = largest_need(result.memory).bytes;
  if (problem_.memory_cap && memory > *problem_.memory_cap) return;
  if (best_ && std::tuple(result.makespan, memory, pack_count(tasks.packs)) >=
                   std::tuple(best_->makespan, best_->memory, pack_count(best_->packs)))
    return;
  best_ =
      RatedUnit{tasks.candidate, tasks.packs, std::move(result.schedule), result.makespan, memory};
}

}  // namespace slimpack
