#include "slimpack/job/configured_request.h"

#include <utility>

#include "slimpack/planner/activation_budget.h"
#include "slimpack/planner/rank_speeds.h"
#include "slimpack/planner/require_sensible.h"

namespace slimpack {

namespace {

std::optional<Bytes> configured_cap(const RunConfig& config, const CostModel& cost,
                                    const StageLayout& layout) {
  if (config.plan.memory_cap || config.plan.unlimited_memory) return config.plan.memory_cap;
  const std::optional<Bytes> cap = activation_cap(cost, layout, config.parallel.dp);
  if (!cap)
    invalid_input(
        "the costs ({}) do not say how much memory a rank has, and without it a plan has no cap; "
        "measure again with 'slimpack profile', or set plan.memory_cap to bytes or to \"none\"",
        cost.source);
  return cap;
}

}  // namespace

PlanRequest configured_request(const RunConfig& config, const CostModel& cost,
                               SequenceLengths lengths, std::optional<StageLayout> layout) {
  PlanRequest request;
  request.lengths = std::move(lengths);
  request.pp = config.parallel.pp;
  request.dp = config.parallel.dp;
  request.speed = stage_speeds(config.parallel.speed, request.pp, request.dp, config.parallel.tp);
  request.planner = config.plan.planner;
  request.granularity = config.plan.granularity;
  request.context = config.data.context;
  request.layout =
      layout ? std::move(*layout) : balanced_layout(cost, request.lengths, config.parallel.pp);
  request.memory_cap = configured_cap(config, cost, *request.layout);
  request.most_merged = allowed_merging(config.plan.most_merged, config.parallel.dp, cost);
  request.backward = config.plan.backward;
  request.solver = config.plan.solver;
  request.time_budget = from_seconds(config.plan.time_budget);
  request.mixed_recompute = !config.plan.recompute;
  request.recompute = allowed_recomputations(config, cost);
  return request;
}

std::vector<Recompute> allowed_recomputations(const RunConfig& config, const CostModel& cost) {
  if (config.plan.recompute) return {*config.plan.recompute};
  return known_recomputations(cost);
}

InvalidInput refused(const RunConfig& config, const DoesNotFit& why) {
  if (config.plan.memory_cap) return InvalidInput(why.message());
  return InvalidInput(
      why.message("the cap is what a rank's memory leaves beside weights, gradients and optimizer; "
                  "'slimpack fit' looks for changes that fit"));
}

}  // namespace slimpack
