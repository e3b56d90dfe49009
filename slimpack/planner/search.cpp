#include "slimpack/planner/search.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "slimpack/base/error.h"
#include "slimpack/cost/memory_model.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

/// Caps to try, as multiples of a candidate's least memory, falling. Dense where memory is scarce
/// and the bubble depends on it.
constexpr std::array kCapFactors = {3.0, 2.0, 1.5, 1.3, 1.2, 1.14, 1.09, 1.06, 1.03, 1.0};

auto rank(const RatedPlan& plan) {
  return std::tuple(plan.makespan, plan.memory,
                    plan.packs.forward.size() + plan.packs.backward.size());
}

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
  std::vector<SequenceId> sequences;
  for (std::size_t q = 0; q < problem.lengths.size(); ++q) sequences.emplace_back(q);
  return fluid_cut(problem.lengths,
                   fluid_order(problem.lengths, std::move(sequences), candidate.short_first),
                   slice_cost(problem.cost, problem.layout, pacing, false),
                   slice_cost(problem.cost, problem.layout, pacing, true), candidate.cut);
}

void Search::consider(const Candidate& candidate) {
  Tasks tasks{.packs = cut_candidate(problem_, pacing_, candidate), .times = {}, .bytes = {}};
  tasks.times = task_times(problem_.cost, problem_.layout, tasks.packs);
  if (best_ && makespan_lower_bound(tasks.packs, tasks.times) > best_->makespan) return;
  tasks.bytes = task_bytes(problem_.cost.shape, problem_.cost.dtype, problem_.layout, tasks.packs,
                           problem_.lengths);
  const StageNeed need = largest_need(least_memory(tasks.packs, tasks.bytes));
  if (!least_need_ || need.bytes < least_need_->bytes) least_need_ = need;
  if (problem_.memory_cap && need.bytes > *problem_.memory_cap) return;

  // A schedule is the same under every cap between its own memory and the cap that it was made for.
  Bytes memory = rate(tasks, std::nullopt);
  for (const double factor : kCapFactors) {
    const Bytes cap(static_cast<std::int64_t>(static_cast<double>(need.bytes.count()) * factor));
    if (cap >= memory || (problem_.memory_cap && cap > *problem_.memory_cap)) continue;
    memory = rate(tasks, cap);
  }
}

Bytes Search::rate(const Tasks& tasks, std::optional<Bytes> cap) {
  ListScheduleOptions options;
  if (cap) options.memory_cap.assign(tasks.bytes.rows.size(), *cap);
  std::optional<Schedule> schedule = list_schedule(tasks.packs, tasks.times, tasks.bytes, options);
  SLIMPACK_CHECK(schedule.has_value());
  const Bytes memory = largest_need(schedule_memory(tasks.packs, *schedule, tasks.bytes)).bytes;
  if (problem_.memory_cap && memory > *problem_.memory_cap) return memory;
  RatedPlan plan{tasks.packs, std::move(*schedule), Nanos(0), memory};
  plan.makespan =
      simulate(plan.packs, plan.schedule, tasks.times, tasks.bytes, {kChannelSlots, false})
          .makespan;
  if (!best_ || rank(plan) < rank(*best_)) best_ = std::move(plan);
  return memory;
}

}  // namespace slimpack
