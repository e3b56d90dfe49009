// Steps: divide the layers; for every choice of recomputation that may pay, search (for fixed
// packing: make its one plan), then deeper where asked to; see whether a baseline is shorter;
// simulate the best as a whole job.
#include <algorithm>
#include <span>
#include <utility>

#include "slimpack/base/progress.h"
#include "slimpack/planner/baseline_search.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/planner/does_not_fit.h"
#include "slimpack/planner/packed_step.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/require_sensible.h"
#include "slimpack/planner/step_search.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack {
namespace {

/// Steps of no more granules are small: exact answers take a moment.
constexpr std::int64_t kMostAutoGranules = 24;
constexpr ExactEffort kAutoEffort{.nodes = 20, .size = 48};
/// Sizes that docs/solver.md finds solvable.
constexpr ExactEffort kMilpEffort{.nodes = 200, .size = 96};
/// Within a time budget: rounds at most, each with so many times the nodes and size of the one
/// before.
constexpr int kMostRounds = 10;
constexpr std::int64_t kMoreNodes = 8;
constexpr std::size_t kMoreSize = 2;
constexpr double kRoundGap = 1e-3;

/// A replica's packs in the step's ids.
PackPlan in_step_ids(PackPlan packs, const ReplicaShare& share) {
  for (auto* pass : {&packs.forward, &packs.backward})
    for (MicroPack& pack : *pass)
      for (Slice& slice : pack.slices) slice.sequence = share.sequences[slice.sequence.index()];
  return packs;
}

PlannedStep step_of(const StepProblem& problem, StepSolution solution) {
  PlannedStep step;
  step.plan.lengths = problem.lengths;
  step.plan.layout = problem.layout;
  step.plan.replicas.resize(static_cast<std::size_t>(problem.replicas));
  step.schedules.resize(step.plan.replicas.size());
  step.speed = problem.speed;
  step.plan.recompute = problem.cost.recompute;
  step.memory.resize(static_cast<std::size_t>(problem.layout.stages()));
  for (std::size_t u = 0; u < solution.units.size(); ++u) {
    RatedUnit& rated = solution.rated[u];
    for (std::size_t s = 0; s < step.memory.size(); ++s)
      step.memory[s] = std::max(step.memory[s], rated.memory[s]);
    for (std::size_t i = 0; i < rated.packs.size(); ++i) {
      const ReplicaShare& share = solution.units[u].replicas[i];
      step.schedules[share.replica.index()] = own_order(rated.schedule, rated.packs[i]);
      step.plan.replicas[share.replica.index()] = {share.sequences,
                                                   in_step_ids(std::move(rated.packs[i]), share)};
    }
  }
  return step;
}

StepBoundProblem bound_problem(const StepProblem& problem) {
  return {problem.cost,  problem.lengths,     problem.layout,     problem.replicas,
          problem.speed, problem.most_merged, problem.granularity};
}

/// What a choice of recomputation needs at least.
using LeastNeed = std::pair<StageNeed, RecomputeByLayer>;

/// The best step of all choices of recomputation.
struct Attempt {
  std::optional<PlannedStep> step;
  std::optional<LeastNeed> least;  ///< of the choices that do not fit
};

/// A search that ran out of time knows no need.
void keep_less(std::optional<LeastNeed>& least, const LeastNeed& other) {
  if (other.first.bytes == Bytes(0)) return;
  if (!least || other.first.bytes < least->first.bytes) least = other;
}

StepProblem with_cost(const StepProblem& problem, const CostModel& cost) {
  StepProblem other = paced({cost, problem.lengths, problem.speed, problem.layout, problem.replicas,
                             problem.most_merged, problem.granularity, problem.memory_cap,
                             problem.effort, problem.exact, problem.deadline});
  other.progress = problem.progress;
  other.search = problem.search;
  return other;
}

/// One search after the other.
class ChoiceSearch {
 public:
  ChoiceSearch(const PlanRequest& request, const StepProblem& problem)
      : problem_(problem), choices_(recompute_choices(request, problem)) {}

  /// The cheapest policy is searched in any case, and mixtures are cut as was best for it, since a
  /// search of each would take too long; so neither depends on the memory cap. Another choice that
  /// cannot fit is looked at only where nothing does, for what it would need.
  Attempt run() {
    search(choices_.front());
    std::vector<const RecomputeChoice*> hopeless;
    for (const RecomputeChoice& choice : std::span(choices_).subspan(1)) {
      if (never_fits(problem_, with_recompute(problem_.cost, choice.recompute)))
        hopeless.push_back(&choice);
      else
        search(choice);
    }
    if (!out_.step)
      for (const RecomputeChoice* choice : hopeless) search(*choice);
    if (out_.step)
      out_.step->prediction = predict(*out_.step, problem_.cost, {kChannelSlots, false});
    return std::move(out_);
  }

 private:
  void search(const RecomputeChoice& choice) {
    const CostModel cost = with_recompute(problem_.cost, choice.recompute);
    StepProblem problem = with_cost(problem_, cost);
    if (choice.mixed) problem.candidates = favourites_;
    problem.below = best_;
    if (best_ && step_actions_bound(bound_problem(problem)) >= *best_) return;
    StepSearchResult result = search_step(problem);
    if (favourites_.empty()) favourites_ = result.favourites;
    if (result.solution && (!best_ || result.solution->makespan < *best_)) {
      best_ = result.solution->makespan;
      out_.step = step_of(problem, std::move(*result.solution));
    } else if (!result.solution) {
      keep_less(out_.least, {result.least_need, choice.recompute});
    }
  }

  const StepProblem& problem_;
  std::vector<RecomputeChoice> choices_;
  std::vector<Candidate> favourites_;  ///< of the cheapest policy
  std::optional<Nanos> best_;
  Attempt out_;
};

Attempt attempt(const PlanRequest& request, const StepProblem& problem) {
  return ChoiceSearch(request, problem).run();
}

void keep_shorter(Attempt& best, Attempt other) {
  if (other.least) keep_less(best.least, *other.least);
  if (!other.step) return;
  if (!best.step || other.step->prediction.makespan < best.step->prediction.makespan)
    best = std::move(other);
}

ExactEffort exact_effort(const PlanRequest& request) {
  switch (request.solver) {
    case SolverKind::kAuto:
      return total_granules(request.lengths, request.granularity) <= kMostAutoGranules
                 ? kAutoEffort
                 : ExactEffort{};
    case SolverKind::kFluid:
      return {};
    case SolverKind::kMilp:
      return kMilpEffort;
  }
  return {};
}

/// What the solver and the time budget add to the usual search. Each round of the budget looks
/// wider first, which is quick, then solves larger programs.
void look_further(const PlanRequest& request, const StepProblem& problem, Nanos start,
                  Attempt& best) {
  StepProblem exact = with_cost(problem, problem.cost);
  exact.exact = exact_effort(request);
  if (exact.exact.nodes > 0) keep_shorter(best, attempt(request, exact));
  if (request.time_budget == Nanos(0)) return;
  StepProblem wider = with_cost(problem, problem.cost);
  exact.deadline = wider.deadline = start + request.time_budget;
  exact.exact.gap = kRoundGap;
  for (int round = 0; round < kMostRounds && !out_of_time(wider); ++round) {
    ++wider.effort;
    keep_shorter(best, attempt(request, wider));
    if (exact.exact.nodes == 0) continue;
    exact.exact.nodes *= kMoreNodes;
    exact.exact.size *= kMoreSize;
    keep_shorter(best, attempt(request, exact));
  }
}

/// The best of all rounds of the effort asked for.
Attempt rounds(const PlanRequest& request, const StepProblem& problem) {
  Attempt best;
  StepProblem round = problem;
  for (round.effort = 1; round.effort <= problem.effort; ++round.effort)
    keep_shorter(best, attempt(request, round));
  return best;
}

/// Whatever a baseline does is allowed to us as well. Of equally long steps the searched one stays.
void consider_baselines(const PlanRequest& request, const StepProblem& problem, Attempt& best) {
  for (const auto& [recompute, mixed] : recompute_choices(request, problem)) {
    if (mixed) continue;  // baselines have one policy for all layers
    const CostModel cost = with_recompute(problem.cost, recompute);
    StepProblem one = with_cost(problem, cost);
    if (best.step) one.below = best.step->prediction.makespan;
    BaselineSearchResult found = search_baselines(one, request.context);
    if (found.step) best.step = std::move(found.step);
    if (found.least_need) keep_less(best.least, {*found.least_need, recompute});
  }
}

/// Whole backwards are tried in any case: splitting is one more choice, never a worse step.
Attempt search_slimpack(const PlanRequest& request, const StepProblem& problem) {
  const Nanos start = monotonic_now();
  CostModel cost = problem.cost;
  cost.weight_gradient = {};
  Attempt best = rounds(request, with_cost(problem, cost));
  if (request.backward == BackwardKind::kSplit)
    keep_shorter(best, rounds(request, with_cost(problem, problem.cost)));
  look_further(request, problem, start, best);
  consider_baselines(request, problem, best);
  return best;
}

Attempt make_packed(const PlanRequest& request, const StepProblem& problem) {
  Attempt best;
  for (const auto& [recompute, mixed] : recompute_choices(request, problem)) {
    const CostModel cost = with_recompute(problem.cost, recompute);
    Attempt made;
    made.step = packed_step(with_cost(problem, cost), request.context);
    const StageNeed need = step_need(*made.step, cost);
    made.step->prediction = predict(*made.step, problem.cost, {kChannelSlots, false});
    if (request.memory_cap && need.bytes > *request.memory_cap) {
      made.step.reset();
      made.least = {need, recompute};
    }
    keep_shorter(best, std::move(made));
  }
  return best;
}

PlanOutcome outcome_of(const PlanRequest& request, const StepProblem& problem, Attempt best) {
  PlanOutcome outcome;
  if (best.step) {
    outcome.step = std::move(best.step);
    return outcome;
  }
  const CostModel cost = with_recompute(problem.cost, best.least->second);
  outcome.does_not_fit = refusal(request, with_cost(problem, cost), best.least->first);
  return outcome;
}

}  // namespace

PlanOutcome plan_step(const PlanRequest& request, const CostModel& known) {
  require_sensible(request, known);
  CostModel cost = known;
  if (request.backward == BackwardKind::kWhole) cost.weight_gradient = {};
  StepProblem problem{
      cost,
      request.lengths,
      request.speed,
      request.layout ? *request.layout : balanced_layout(cost, request.lengths, request.pp),
      request.dp,
      request.most_merged,
      request.granularity,
      request.memory_cap,
      request.effort};
  if (request.progress) problem.progress = &request.progress;
  problem.search = request.search;
  const bool packed = request.planner == PlannerKind::kPacked;
  PlanOutcome outcome = outcome_of(
      request, problem, packed ? make_packed(request, problem) : search_slimpack(request, problem));
  if (!outcome.step) return outcome;
  const CostModel cheapest = cheapest_cost(cost, request.recompute);
  StepProblem bounded = with_cost(problem, cheapest);
  if (!outcome.step->baseline.empty())
    bounded.granularity = cut_unit(outcome.step->plan, request.granularity);
  outcome.step->lower_bound = step_lower_bound(bound_problem(bounded));
  return outcome;
}

}  // namespace slimpack
