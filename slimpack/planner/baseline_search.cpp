// Steps: bound what each kind of baseline could do at best; make the plans of those with a chance
// and bound each plan; from the lowest bound on, order and simulate.
#include "slimpack/planner/baseline_search.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/baselines/baseline.h"
#include "slimpack/plan/paired_packs.h"
#include "slimpack/planner/baseline_orders.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/sim/simulate.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack {
namespace {

/// A baseline's plan, and a makespan that no order of it is below.
struct Bounded {
  const Baseline* baseline;
  BaselinePlan made;
  Nanos bound;
};

class BaselineSearch {
 public:
  explicit BaselineSearch(const StepProblem& problem) : problem_(problem), best_(problem.below) {}

  BaselineSearchResult run() {
    std::vector<Bounded> plans = bounded_plans();
    std::stable_sort(plans.begin(), plans.end(),
                     [](const Bounded& a, const Bounded& b) { return a.bound < b.bound; });
    for (const Bounded& plan : plans)
      if (has_chance(plan.bound)) rate(plan);
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool has_chance(Nanos bound) const { return !best_ || bound < *best_; }

  std::vector<Bounded> bounded_plans() {
    const Tokens longest = *std::ranges::max_element(problem_.lengths);
    std::vector<Bounded> plans;
    if (longest > problem_.job.context) return plans;
    const Nanos whole = kind_bound(1, longest);
    const Nanos cut = kind_bound(1, Tokens(1));
    const Nanos merged = kind_bound(problem_.choices.most_merged, longest);
    for (const Baseline& baseline : baselines()) {
      const Nanos least = baseline.merges ? merged : baseline.cuts ? cut : whole;
      if (!has_chance(least)) continue;
      BaselinePlan made = baseline_plan(baseline, problem_.job, problem_.lengths, problem_.cost);
      if (most_merged(made.plan) > problem_.choices.most_merged) continue;
      if (problem_.choices.cuts == CutsKind::kSymmetric && !symmetric(made.plan)) continue;
      const Nanos bound = std::max(least, plan_bound(made));
      if (has_chance(bound)) plans.push_back({&baseline, std::move(made), bound});
    }
    return plans;
  }

  static bool symmetric(const StepPlan& plan) {
    return std::ranges::all_of(plan.replicas,
                               [](const ReplicaPlan& r) { return all_paired(r.packs); });
  }

  [[nodiscard]] Nanos kind_bound(std::int32_t most_merged, Tokens granularity) const {
    return step_lower_bound(problem_.job, problem_.lengths, problem_.cost,
                            {most_merged, granularity, {}});
  }

  /// Of a plan whose packs will not be put into another order.
  [[nodiscard]] Nanos plan_bound(const BaselinePlan& made) const {
    Nanos bound(0);
    if (!problem_.below || made.discipline == Discipline::kListSchedule) return bound;
    RatedPlan step;
    step.plan = made.plan;
    step.plan.recompute = problem_.cost.recompute;
    step.speed = problem_.job.speed;
    for (const ReplicaPacks& replica : costed_replicas(step, problem_.cost))
      bound = std::max(bound, makespan_lower_bound(replica.packs, replica.times));
    return bound;
  }

  [[nodiscard]] bool fits(Bytes need) const {
    return !problem_.job.memory_cap || need <= *problem_.job.memory_cap;
  }

  void rate(const Bounded& plan) {
    RatedPlan step = ordered_step(plan.made, problem_.job, problem_.cost);
    const auto replicas = costed_replicas(step, problem_.cost);
    const StageNeed need = largest_need(stage_needs(step, replicas));
    if (fits(need.bytes)) {
      keep(*plan.baseline, step, replicas);
      if (plan.made.discipline == Discipline::kListSchedule && problem_.job.replicas == 1 &&
          step.plan.replicas.front().packs.forward.size() <= problem_.choices.search.few_packs)
        rate_smaller_caps(*plan.baseline, std::move(step));
    } else if (!best_ && (!result_.least_need || need.bytes < result_.least_need->bytes)) {
      result_.least_need = need;
    }
  }

  /// A smaller cap gives the shorter list schedule at times. Each counts that makes a difference,
  /// so that of one replica with few packs more memory never leads to a longer step.
  void rate_smaller_caps(const Baseline& baseline, RatedPlan step) {
    const ReplicaId replica(std::int32_t{0});
    for (PackPlan& order : tried_orders(step, problem_.cost, replica)) {
      step.plan.replicas.front().packs = std::move(order);
      const auto replicas = costed_replicas(step, problem_.cost);
      const ReplicaPacks& only = replicas.front();
      if (!has_chance(makespan_lower_bound(only.packs, only.times))) continue;
      const ListScheduler scheduler(replicas);
      const Bytes least = largest_need(scheduler.least_memory()).bytes;
      std::vector<Bytes> caps;  // none at first
      for (bool more = true; more;) {
        const auto result = scheduler.run(caps);
        const Bytes memory = largest_need(result->memory).bytes;
        step.schedules = {result->schedule};
        if (fits(memory)) keep(baseline, step, replicas);
        // Down to its own memory a smaller cap gives the same schedule.
        const Bytes next = std::min(memory - Bytes(1), problem_.job.memory_cap.value_or(memory));
        more = next >= least;
        caps.assign(only.bytes.rows.size(), next);
      }
    }
  }

  void keep(const Baseline& baseline, const RatedPlan& step,
            const std::vector<ReplicaPacks>& replicas) {
    SimulationResult prediction = simulate(replicas, step.schedules, {kChannelSlots, false});
    if (!has_chance(prediction.makespan)) return;
    best_ = prediction.makespan;
    result_.step = step;
    result_.step->prediction = std::move(prediction);
    result_.step->baseline = baseline.name;
  }

  const StepProblem& problem_;
  std::optional<Nanos> best_;  ///< only what is shorter is of use
  BaselineSearchResult result_;
};

}  // namespace

BaselineSearchResult search_baselines(const StepProblem& problem) {
  return BaselineSearch(problem).run();
}

}  // namespace slimpack
