#include "slimpack/planner/unit_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "slimpack/base/error.h"
#include "slimpack/cost/memory_model.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

/// The tight cap that judges candidates, as a multiple of their least memory.
constexpr double kTight = 1.1;
/// Caps to try last, falling. Dense where memory is scarce and the bubble depends on it.
constexpr std::array kLadder = {2.0, 1.5, 1.3, 1.2, 1.14, 1.09, 1.05, 1.02, 1.0};

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

std::size_t pack_count(const std::vector<PackPlan>& packs) {
  std::size_t count = 0;
  for (const PackPlan& p : packs) count += p.forward.size() + p.backward.size();
  return count;
}

}  // namespace

UnitSearch::UnitSearch(const StepProblem& problem, const Unit& unit, const UnitCutOptions* hint)
    : problem_(problem),
      unit_(unit),
      space_(candidate_space(unit, problem.layout.stages(), problem.granularity)),
      cost_(unit_cost(problem, pacing_of(problem, unit.replicas.front().replica).stage)),
      score_(std::numeric_limits<double>::infinity()) {
  if (hint != nullptr) enqueue({*hint});
  enqueue(coarse_candidates(space_));
}

void UnitSearch::enqueue(const std::vector<UnitCutOptions>& candidates) {
  for (const UnitCutOptions& candidate : candidates) {
    const auto same = [&](const UnitCutOptions& other) { return other == candidate; };
    if (std::any_of(queue_.begin(), queue_.end(), same) ||
        std::any_of(seen_.begin(), seen_.end(),
                    [&](const Seen& s) { return s.candidate == candidate; }))
      continue;
    queue_.push_back(candidate);
  }
}

void UnitSearch::next_stage() {
  ++stage_;
  if (stage_ <= kDirections) {
    enqueue(neighbours(favourite_, space_, stage_ - 1));
  } else if (stage_ == kLastStage) {
    std::stable_sort(seen_.begin(), seen_.end(),
                     [](const Seen& a, const Seen& b) { return a.bound < b.bound; });
    for (const Seen& seen : seen_) queue_.push_back(seen.candidate);
  }
}

void UnitSearch::advance() {
  SLIMPACK_CHECK(!queue_.empty());
  const UnitCutOptions candidate = queue_.front();
  queue_.pop_front();
  if (stage_ < kLastStage)
    explore(candidate);
  else
    climb_ladder(candidate);
  while (queue_.empty() && stage_ <= kLastStage) next_stage();
}

UnitSearch::Tasks UnitSearch::tasks_of(const UnitCutOptions& candidate) const {
  Tasks tasks;
  tasks.packs = cut_unit(unit_, cost_, candidate);
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

void UnitSearch::explore(const UnitCutOptions& candidate) {
  const Tasks tasks = tasks_of(candidate);
  seen_.push_back({candidate, tasks.bound});
  if (static_cast<double>(tasks.bound.count()) >= score_) return;

  const std::vector<TaskBytes> bytes = bytes_of(tasks.packs);
  const ListScheduler scheduler(views(tasks.packs, tasks.times, bytes));
  const Bytes tight = times_factor(largest_need(scheduler.least_memory()).bytes, kTight);
  auto free = scheduler.run({});
  auto capped = largest_need(free->memory).bytes <= tight
                    ? free
                    : scheduler.run(std::vector<Bytes>(scheduler.least_memory().size(), tight));
  const double score = (static_cast<double>(free->makespan.count()) +
                        static_cast<double>(capped->makespan.count())) /
                       2;
  if (score < score_) {
    score_ = score;
    favourite_ = candidate;
  }
  keep(candidate, tasks.packs, std::move(*free));
  keep(candidate, tasks.packs, std::move(*capped));
}

void UnitSearch::climb_ladder(const UnitCutOptions& candidate) {
  const Tasks tasks = tasks_of(candidate);
  if (best_ && tasks.bound >= best_->makespan) return;
  const std::vector<TaskBytes> bytes = bytes_of(tasks.packs);
  const ListScheduler scheduler(views(tasks.packs, tasks.times, bytes));
  const StageNeed need = largest_need(scheduler.least_memory());
  if (!least_need_ || need.bytes < least_need_->bytes) least_need_ = need;
  if (problem_.memory_cap && need.bytes > *problem_.memory_cap) return;

  Bytes memory(std::numeric_limits<std::int64_t>::max());
  for (const double factor : kLadder) {
    const Bytes cap = times_factor(need.bytes, factor);
    // A schedule is the same under every cap from its own memory to the cap that it was made for.
    if (cap >= memory || (problem_.memory_cap && cap > *problem_.memory_cap)) continue;
    auto result = scheduler.run(std::vector<Bytes>(scheduler.least_memory().size(), cap));
    memory = largest_need(result->memory).bytes;
    keep(candidate, tasks.packs, std::move(*result));
  }
}

void UnitSearch::keep(const UnitCutOptions& candidate, const std::vector<PackPlan>& packs,
                      ListScheduler::Result result) {
  const Bytes memory = largest_need(result.memory).bytes;
  if (problem_.memory_cap && memory > *problem_.memory_cap) return;
  if (best_ && std::tuple(result.makespan, memory, pack_count(packs)) >=
                   std::tuple(best_->makespan, best_->memory, pack_count(best_->packs)))
    return;
  best_ = RatedUnit{candidate, packs, std::move(result.schedule), result.makespan, memory};
}

}  // namespace slimpack
