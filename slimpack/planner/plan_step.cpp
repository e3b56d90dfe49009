// Steps: search over recomputations, then deeper where asked to; see whether a baseline is shorter;
// bound the best. Fixed packing is a baseline.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "slimpack/base/human.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/threads.h"
#include "slimpack/planner/baseline_search.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/planner/does_not_fit.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/recompute_search.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/require_sensible.h"
#include "slimpack/schedule/lowered_schedule.h"
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
/// Steps with more sequences take so long to plan that a search is worth waiting for whose result
/// saves a part of the next one.
constexpr std::size_t kManySequences = 8192;

ExactEffort exact_effort(const StepQuestion& question) {
  const Choices& choices = question.choices;
  switch (choices.solver) {
    case SolverKind::kAuto:
      return total_granules(question.lengths, choices.granularity) <= kMostAutoGranules
                 ? kAutoEffort
                 : ExactEffort{};
    case SolverKind::kFluid:
      return {};
    case SolverKind::kMilp:
      return kMilpEffort;
  }
  return {};
}

/// Searches further, as the solver and the time budget ask. Each round of the budget looks wider
/// first, which is quick, then solves larger programs.
void look_further(const StepQuestion& question, const SearchBasis& basis, Nanos start,
                  BestStep& best) {
  const auto search = [&](const SearchDepth& depth) {
    best.keep_shorter(search_recomputations(question, basis, depth, processors()));
  };
  SearchDepth wider{.effort = question.choices.effort};
  SearchDepth exact{.effort = wider.effort, .exact = exact_effort(question)};
  if (exact.exact.nodes > 0) search(exact);
  const Nanos budget = question.choices.time_budget;
  if (budget == Nanos(0)) return;
  exact.deadline = wider.deadline = start + budget;
  exact.exact.gap = kRoundGap;
  for (int round = 0; round < kMostRounds && !out_of_time(wider); ++round) {
    ++wider.effort;
    search(wider);
    if (exact.exact.nodes == 0) continue;
    exact.exact.nodes *= kMoreNodes;
    exact.exact.size *= kMoreSize;
    search(exact);
  }
}

/// The best of all rounds of the effort asked for.
BestStep rounds(const StepQuestion& question, const SearchBasis& basis, int threads,
                std::optional<Nanos> below = std::nullopt) {
  BestStep best;
  for (std::int32_t effort = 1; effort <= question.choices.effort; ++effort)
    best.keep_shorter(search_recomputations(question, basis, {.effort = effort}, threads, below));
  return best;
}

/// Whether one search has work for all threads most of the time: that of its replicas.
bool fills_threads(const StepQuestion& question) {
  return question.job.replicas > 1 && question.lengths.size() > kManySequences;
}

/// Whole backwards are tried in any case: splitting is one more choice, never a worse step. The two
/// searches know nothing of each other, unless waiting for one spares a part of the other.
BestStep whole_and_split(const StepQuestion& whole, const StepQuestion& split,
                         const SearchBasis& basis) {
  const int threads = processors();
  if (fills_threads(split)) {
    BestStep best = rounds(split, basis, threads);
    std::optional<Nanos> below;
    if (best.step) below = best.step->prediction.makespan;
    best.keep_shorter(rounds(whole, basis, threads, below));
    return best;
  }
  const StepQuestion* each[] = {&whole, &split};
  std::array<BestStep, 2> found;
  for_each_index(found.size(), threads,
                 [&](std::size_t i) { found[i] = rounds(*each[i], basis, (threads + 1) / 2); });
  BestStep best = std::move(found.front());
  best.keep_shorter(std::move(found.back()));
  return best;
}

BestStep searched(const StepQuestion& question, const std::function<void()>& progress) {
  const Nanos start = monotonic_now();
  const SearchBasis basis = search_basis(question, progress);
  Costs whole_cost = question.cost;
  whole_cost.kinds.front().weight_gradient = {};
  const StepQuestion whole{question.job, question.lengths, question.choices, whole_cost};
  BestStep best = question.choices.backward == BackwardKind::kSplit
                      ? whole_and_split(whole, question, basis)
                      : rounds(whole, basis, processors());
  look_further(question, basis, start, best);
  return best;
}

void keep_least(const BaselineSearchResult& found, BestStep& best) {
  if (found.leanest) best.keep_less({*found.least_need, found.leanest->plan.recompute});
}

/// Whatever a baseline does is allowed to us as well. If steps are equally long, the searched one
/// stays.
void consider_baselines(const StepQuestion& question, const std::function<void()>& progress,
                        BestStep& best) {
  BaselineRequest others = all_baselines(question);
  if (best.step) others.below = best.step->prediction.makespan;
  others.tick = progress;
  BaselineSearchResult found = search_baselines(others);
  keep_least(found, best);
  if (found.step) best.step = std::move(found.step);
}

BestStep slimpack_step(const StepQuestion& question, const std::function<void()>& progress) {
  BestStep best;
  // List scheduling knows stages around the ranks only.
  const bool searches = !question.job.layout.placement.turns_back();
  if (searches) best = searched(question, progress);
  if (!searches || question.choices.search.baselines) consider_baselines(question, progress, best);
  return best;
}

BestStep packed_step(const StepQuestion& question) {
  BestStep best;
  RatedPlan step = baseline_step(packed_baseline(), question);
  const RankNeed need = step_need(step, question.cost);
  if (fits(step, need.bytes, question.job.memory_cap, question.cost))
    best.step = std::move(step);
  else
    best.least = {need, step.plan.recompute};
  return best;
}

/// The baseline that the choices name, in its best setting. Ranks exchange attention if the choices
/// allow it.
BestStep named_step(const StepQuestion& question) {
  require_packable(question.job.context, question.job.replicas, question.lengths);
  BaselineSearchResult found = search_baselines(named_baseline(question));
  SLIMPACK_CHECK(found.step || found.leanest);
  BestStep best;
  keep_least(found, best);
  best.step = std::move(found.step);
  return best;
}

BestStep best_step(const StepQuestion& question, const std::function<void()>& progress) {
  switch (question.choices.planner) {
    case PlannerKind::kSlimpack:
      break;
    case PlannerKind::kPacked:
      return packed_step(question);
    case PlannerKind::kSlimpipe:
    case PlannerKind::kZeppelin:
    case PlannerKind::kContextParallel:
    case PlannerKind::kTokenBalanced:
      return named_step(question);
  }
  return slimpack_step(question, progress);
}

Nanos lower_bound(const StepQuestion& question, const RatedPlan& step) {
  const Choices& choices = question.choices;
  CutLimits limits{std::max(choices.most_merged, most_merged(step.plan)), choices.granularity,
                   choices.recompute, choices.exchange_context, question.job.memory_cap};
  if (!step.baseline.empty()) limits.granularity = cut_unit(step.plan, limits.granularity);
  return step_lower_bound({bounding_table(step.plan, question), question.lengths, limits});
}

PlanOutcome refused(const StepQuestion& question, const std::optional<LeastNeed>& least) {
  const std::optional<Bytes>& cap = question.job.memory_cap;
  if (!least || !cap || least->need.bytes <= *cap)
    throw JobDoesNotFit(fmt::format(
        "a rank's offloaded rows do not fit into its {} of pinned host memory ({}); allow another "
        "plan.recompute, or use more ranks or a shorter data.context",
        human_bytes(question.cost.host.memory), question.cost.origin.source));
  return {std::nullopt, refusal(question, *least)};
}

}  // namespace

PlanOutcome plan_step(const StepQuestion& asked, const std::function<void()>& progress) {
  require_sensible(asked);
  Costs cost = asked.cost;
  if (asked.choices.backward == BackwardKind::kWhole) cost.kinds.front().weight_gradient = {};
  const StepQuestion question{asked.job, asked.lengths, asked.choices, cost};
  BestStep best = best_step(question, progress);
  if (!best.step) return refused(question, best.least);
  RatedPlan& step = *best.step;
  const std::vector<std::string> errors = check_plan(step.plan, 1);
  SLIMPACK_CHECK(errors.empty(), "{}", errors.front());
  step.lower_bound = lower_bound(question, step);
  if (step.prediction.busy.empty())  // nobody asked for more of the steps that were compared
    step.prediction = predict(step, cost, {kChannelSlots, false});
  return {runnable(std::move(step), cost), std::nullopt};
}

}  // namespace slimpack
