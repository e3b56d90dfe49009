#include "slimpack/planner/unit_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/unit_tasks.h"
#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

/// Candidates near the hint come first.
std::vector<Candidate> nearest_first(std::vector<Candidate> candidates, const Candidate& hint) {
  const auto away = [&](const Candidate& c) {
    return std::abs(std::log2(static_cast<double>(c.cut.fluid.packs) / hint.cut.fluid.packs));
  };
  std::ranges::stable_sort(candidates, {}, away);
  return candidates;
}

/// Some MicroPack has at least the mean of the tokens, and is held between its passes.
int fewest_packs_of(const StepProblem& step, const Unit& unit) {
  if (!step.memory_cap || !step.table.abilities().keeps_by_token) return 1;
  const Tokens tokens = total_tokens(unit.replicas.front().lengths);
  Bytes most;
  for (std::int32_t r = 0; r < step.table.layout().ranks(); ++r)
    most = std::max(most, step.table.sequence_bytes(r, tokens));
  const std::int64_t cap = std::max<std::int64_t>(1, step.memory_cap->count());
  return static_cast<int>(
      std::min<std::int64_t>(1 + (most.count() - 1) / cap, std::numeric_limits<int>::max()));
}

}  // namespace

UnitProblem unit_problem(const SearchRequest& request, const Unit& unit,
                         const std::vector<Candidate>& hints) {
  const StepProblem& step = request.problem;
  const std::int32_t paces = step.pacing[unit.replicas.front().replica.index()].rank;
  UnitProblem problem{.request = request,
                      .unit = unit,
                      .space = candidate_space(unit, step.table.layout().ranks(),
                                               step.choices.granularity, step.choices.search),
                      .cost = unit_cost(step, paces),
                      .first = hints,
                      .directions = free_directions(step.choices.search),
                      .rounds = static_cast<std::size_t>(request.depth.effort)};
  problem.space.ring = step.table.layout().placement.stages_per_rank() > 1;
  problem.space.split = step.table.splits_backward();
  problem.space.paired = step.paired();
  std::vector<Candidate> more = request.candidates;
  if (!more.empty() && !request.wants_need && step.table.replication().replicas == 1)
    problem.fewest_packs = fewest_packs_of(step, unit);
  if (!more.empty())
    problem.rounds = 0;
  else
    more = coarse_candidates(problem.space);
  if (problem.rounds > 0 && !hints.empty()) more = nearest_first(std::move(more), hints.front());
  problem.first.insert(problem.first.end(), more.begin(), more.end());
  return problem;
}

UnitTrial trial_of(const UnitProblem& problem, const Candidate& candidate,
                   std::vector<PackPlan> packs) {
  UnitTrial trial{candidate, {}, {}};
  std::vector<TaskTimes> times = unit_times(problem.step(), problem.unit, packs);
  for (std::size_t i = 0; i < packs.size(); ++i) {
    ReplicaPacks& replica = trial.replicas.emplace_back();
    replica.packs = std::move(packs[i]);
    replica.times = std::move(times[i]);
    trial.bound = std::max(
        trial.bound,
        actions_lower_bound(replica.packs, replica.times, problem.step().table.layout().placement));
  }
  return trial;
}

UnitTrial cut_trial(const UnitProblem& problem, const Candidate& candidate) {
  return trial_of(problem, candidate, cut_unit(problem.unit, problem.cost, candidate.cut));
}

ListScheduler scheduler_of(const UnitProblem& problem, UnitTrial& trial) {
  add_unit_bytes(problem.step(), problem.unit, trial.replicas);
  return ListScheduler(trial.replicas, kChannelSlots,
                       problem.step().table.layout().placement.stages_per_rank());
}

bool fits_host(const UnitProblem& problem, const UnitTrial& trial, const Schedule& order) {
  const StageTable& table = problem.step().table;
  if (table.host_memory() == Bytes(0) || !first_offloading(table.recompute())) return true;
  for (std::size_t i = 0; i < trial.replicas.size(); ++i) {
    const PackPlan& packs = trial.replicas[i].packs;
    const ReplicaShare& share = problem.unit.replicas[i];
    if (host_need(table, packs, share.lengths, own_order(order, packs), share.replica) >
        table.host_memory())
      return false;
  }
  return true;
}

}  // namespace slimpack
