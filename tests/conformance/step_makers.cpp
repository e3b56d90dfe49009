#include "tests/conformance/step_makers.h"

#include <bit>

#include "slimpack/cost/abilities.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/replica_tasks.h"

namespace slimpack::conformance {
namespace {

/// Programs and budgets take their time: less to plan.
constexpr Extent kFewGranules{.sequences = 5, .longest = 4};

void merge(PlanRequest& request, const Workload& workload) {
  request.most_merged =
      static_cast<std::int32_t>(std::bit_floor(static_cast<unsigned>(workload.dp)));
}

void exchange(PlanRequest& request, const Workload&) {
  request.exchange_context = true;
}

void slimpipe(PlanRequest& request, const Workload&) {
  request.planner = PlannerKind::kSlimpipe;
  request.exchange_context = true;
}

void merge_exchange_and_split(PlanRequest& request, const Workload& workload) {
  merge(request, workload);
  exchange(request, workload);
  request.backward = BackwardKind::kSplit;
}

void recompute(PlanRequest& request, const Workload& workload) {
  request.recompute = abilities(workload.cost).recomputations;
}

PlanRequest plain_request(const Workload& workload) {
  PlanRequest request;
  request.lengths = workload.lengths;
  request.pp = workload.pp;
  request.stages_per_rank = workload.stages_per_rank;
  request.dp = workload.dp;
  request.granularity = workload.granularity;
  request.context = workload.context;
  if (workload.uneven) request.speed = workload.speed;
  return request;
}

StepMaker free_step(const Planner& planner) {
  return {.name = planner.name,
          .make =
              [planner](const Workload& workload) {
                const PlanRequest request = request_of(planner, workload);
                return made_by_planner(request, *plan_step(request, workload.cost).step);
              },
          .extent = planner.extent,
          .share = planner.share};
}

/// A budget that ends a search anywhere, or lets it come to its end.
StepMaker budgeted(const Planner& planner) {
  StepMaker maker = free_step({planner.name + " in time",
                               [planner](PlanRequest& request, const Workload& workload) {
                                 planner.set_up(request, workload);
                                 request.time_budget = Nanos(
                                     static_cast<std::int64_t>(workload.lengths.size()) * 300'000);
                               },
                               kFewGranules, 0.1});
  maker.repeats = false;
  return maker;
}

/// A system that does not interleave has one stage on each rank.
PlanRequest request_for(const Baseline& baseline, const Workload& workload) {
  PlanRequest request = plain_request(workload);
  if (!baseline.traits.interleaves) request.stages_per_rank = 1;
  return request;
}

MadeStep made_by_baseline(const PlanRequest& request, const Baseline& baseline, const Costs& cost) {
  MadeStep made{request, runnable(baseline_step(baseline, request, cost), cost)};
  made.most_merged = request.dp;
  made.request.memory_cap.reset();  // which baselines need not keep
  return made;
}

StepMaker baseline(const Baseline& baseline) {
  return {.name = std::string(baseline.name), .make = [&baseline](const Workload& workload) {
            return made_by_baseline(request_for(baseline, workload), baseline, workload.cost);
          }};
}

/// The baseline under three quarters of the memory that it would like to have.
StepMaker short_of_memory(const Baseline& listed) {
  return {.name = std::string(listed.name) + " capped",
          .make = [&listed](const Workload& workload) {
            PlanRequest request = request_for(listed, workload);
            const RatedPlan free = baseline_step(listed, request, workload.cost);
            request.memory_cap = step_need(free, workload.cost).bytes * 3 / 4;
            return made_by_baseline(request, listed, workload.cost);
          }};
}

}  // namespace

std::vector<Planner> planners() {
  using R = PlanRequest;
  using W = Workload;
  return {
      {"fluid", [](R&, const W&) {}},
      {"auto", [](R& r, const W&) { r.solver = SolverKind::kAuto; }, kFewGranules, 0.1},
      {"milp", [](R& r, const W&) { r.solver = SolverKind::kMilp; }, kFewGranules, 0.05},
      {"packed", [](R& r, const W&) { r.planner = PlannerKind::kPacked; }},
      {"slimpipe alone", slimpipe, {}, 0.2},
      {"exchanging", exchange, {}, 0.3},
      {"merging exchanging splitting", merge_exchange_and_split, {}, 0.2},
      {"merging", merge, {}, 0.4},
      {"merging auto",
       [](R& r, const W& w) {
         merge(r, w);
         r.solver = SolverKind::kAuto;
       },
       kFewGranules, 0.1},
      {"recomputing", recompute, {}, 0.5},
      {"mixing",
       [](R& r, const W& w) {
         recompute(r, w);
         r.mixed_recompute = true;
       },
       kFewGranules, 0.4},
      {"merging mixing splitting",
       [](R& r, const W& w) {
         merge(r, w);
         recompute(r, w);
         r.mixed_recompute = true;
         r.backward = BackwardKind::kSplit;
       },
       kFewGranules, 0.1},
      {"mixed packed",
       [](R& r, const W& w) {
         recompute(r, w);
         r.mixed_recompute = true;
         r.planner = PlannerKind::kPacked;
       },
       {},
       0.5},
      {"merging recomputing",
       [](R& r, const W& w) {
         merge(r, w);
         recompute(r, w);
       },
       {},
       0.2},
      {"uneven", [](R& r, const W& w) { r.speed = w.speed; }},
      {"splitting", [](R& r, const W&) { r.backward = BackwardKind::kSplit; }},
      {"merging splitting",
       [](R& r, const W& w) {
         merge(r, w);
         r.backward = BackwardKind::kSplit;
       },
       {},
       0.2},
      {"wider", [](R& r, const W&) { r.effort = 2; }, {.sequences = 12, .longest = 8}},
  };
}

PlanRequest request_of(const Planner& planner, const Workload& workload) {
  PlanRequest request = plain_request(workload);
  planner.set_up(request, workload);
  return request;
}

MadeStep made_by_planner(const PlanRequest& request, const RunnablePlan& step) {
  // A baseline's plan may cut at any token.
  return {request, step, step.baseline.empty() ? request.granularity : Tokens(1),
          request.most_merged};
}

std::vector<StepMaker> step_makers() {
  std::vector<StepMaker> makers;
  for (const Planner& planner : planners()) {
    makers.push_back(free_step(planner));
    if (planner.name == "fluid" || planner.name == "merging auto")
      makers.push_back(budgeted(planner));
  }
  for (const Baseline& each : baselines()) makers.push_back(baseline(each));
  makers.push_back(short_of_memory(baseline_named("dynapipe")));
  return makers;
}

}  // namespace slimpack::conformance
