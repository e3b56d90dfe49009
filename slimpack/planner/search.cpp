#include "slimpack/planner/search.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "slimpack/cost/memory_model.h"
#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

/// Caps to try, as multiples of a candidate's least memory, falling. Dense where memory is scarce
/// and the bubble depends on it.
constexpr std::array kCapFactors = {2.0, 1.5, 1.3, 1.2, 1.14, 1.09, 1.05, 1.02, 1.0};

}  // namespace

StageNeed largest_need(const std::vector<Bytes>& by_stage) {
  const auto largest = std::max_element(by_stage.begin(), by_stage.end());
  return {*largest, StageId(static_cast<std::size_t>(largest - by_stage.begin()))};
}

StageId pacing_stage(const SearchProblem& problem) {
  StageId pacing;
  double most = -1;
  for (std::int32_t s = 0; s < problem.layout.stages(); ++s) {
    const SliceCost forward = slice_cost(problem.cost, problem.layout, StageId(s), false);
    const SliceCost backward = slice_cost(problem.cost, problem.layout, StageId(s), true);
    double work = 0;
    for (std::size_t q = 0; q < problem.lengths.size(); ++q) {
      const Slice whole{SequenceId(q), Tokens(0), problem.lengths[q]};
      work += forward(whole) + backward(whole);
    }
    if (work > most) {
      most = work;
      pacing = StageId(s);
    }
  }
  return pacing;
}

PackPlan cut_candidate(const SearchProblem& problem, StageId pacing, const Candidate& candidate) {
  return fluid_cut(
      problem.lengths,
      fluid_order(problem.lengths, all_sequences(problem.lengths), candidate.short_first),
      slice_cost(problem.cost, problem.layout, pacing, false),
      slice_cost(problem.cost, problem.layout, pacing, true), candidate.cut);
}

void Search::run(const std::vector<Candidate>& candidates) {
  const StageId pacing = pacing_stage(problem_);
  std::vector<Tasks> tasks;
  for (const Candidate& candidate : candidates) {
    Tasks& added = tasks.emplace_back();
    added.packs = cut_candidate(problem_, pacing, candidate);
    added.times = task_times(problem_.cost, problem_.layout, added.packs);
    added.bound = makespan_lower_bound(added.packs, added.times);
  }
  std::vector<std::size_t> order(tasks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tasks[a].bound < tasks[b].bound; });
  for (const std::size_t i : order) {
    if (best_ && tasks[i].bound > best_->makespan) return;
    consider(tasks[i]);
  }
}

void Search::consider(const Tasks& tasks) {
  const TaskBytes bytes = task_bytes(problem_.cost, problem_.layout,
                                     tasks.packs, problem_.lengths);
  const ListScheduler scheduler(tasks.packs, tasks.times, bytes);
  const StageNeed need = largest_need(scheduler.least_memory());
  if (!least_need_ || need.bytes < least_need_->bytes) least_need_ = need;
  if (problem_.memory_cap && need.bytes > *problem_.memory_cap) return;

  auto result = scheduler.run({});
  Bytes memory = largest_need(result->memory).bytes;
  rate(tasks, bytes, std::move(result->schedule), memory);
  for (const double factor : kCapFactors) {
    const Bytes cap(static_cast<std::int64_t>(static_cast<double>(need.bytes.count()) * factor));
    // A schedule is the same under every cap from its own memory to the cap that it was made for.
    if (cap >= memory || (problem_.memory_cap && cap > *problem_.memory_cap)) continue;
    result = scheduler.run(std::vector<Bytes>(bytes.rows.size(), cap));
    memory = largest_need(result->memory).bytes;
    rate(tasks, bytes, std::move(result->schedule), memory);
  }
}

void Search::rate(const Tasks& tasks, const TaskBytes& bytes, Schedule schedule, Bytes memory) {
  if (problem_.memory_cap && memory > *problem_.memory_cap) return;
  const Nanos makespan =
      simulate(tasks.packs, schedule, tasks.times, bytes, {kChannelSlots, false}).makespan;
  const std::size_t packs = tasks.packs.forward.size() + tasks.packs.backward.size();
  if (best_ && std::tuple(makespan, memory, packs) >=
                   std::tuple(best_->makespan, best_->memory,
                              best_->packs.forward.size() + best_->packs.backward.size()))
    return;
  best_ = RatedPlan{tasks.packs, std::move(schedule), makespan, memory};
}

}  // namespace slimpack
