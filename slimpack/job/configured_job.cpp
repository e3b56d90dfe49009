#include "slimpack/job/configured_job.h"

#include <utility>

#include "slimpack/planner/activation_budget.h"
#include "slimpack/planner/rank_speeds.h"
#include "slimpack/planner/require_sensible.h"

namespace slimpack {

namespace {

std::optional<Bytes> configured_cap(const RunConfig& config, const Costs& cost,
                                    const StageLayout& layout) {
  if (config.plan.memory_cap || config.plan.unlimited_memory) return config.plan.memory_cap;
  const std::int32_t merged = allowed_merging(config.plan.most_merged, config.parallel.dp, cost);
  const std::optional<Bytes> cap = activation_cap(cost, layout, config.parallel.dp, merged);
  if (!cap)
    invalid_input(
        "the costs ({}) do not say how much memory a rank has, and without it a plan has no cap; "
        "measure again with 'slimpack profile', or set plan.memory_cap to bytes or to \"none\"",
        cost.source);
  return cap;
}

}  // namespace

Job configured_job(const RunConfig& config, const Costs& cost, StageLayout layout) {
  const std::optional<Bytes> cap = configured_cap(config, cost, layout);
  return {.layout = std::move(layout),
          .replicas = config.parallel.dp,
          .speed = stage_speeds(config.parallel.speed, config.parallel),
          .memory_cap = cap,
          .context = config.data.context};
}

Choices configured_choices(const RunConfig& config, const Costs& cost) {
  return {.planner = config.plan.planner,
          .granularity = config.plan.granularity,
          .most_merged = allowed_merging(config.plan.most_merged, config.parallel.dp, cost),
          .backward = config.plan.backward,
          .solver = config.plan.solver,
          .cuts = config.plan.cuts,
          .time_budget = from_seconds(config.plan.time_budget),
          .recompute = allowed_recomputations(config, cost),
          .mixed_recompute = !config.plan.recompute};
}

std::vector<Recompute> allowed_recomputations(const RunConfig& config, const Costs& cost) {
  const bool any = !config.plan.recompute || (cost.autograd && !config.plan.recompute_given);
  return any ? known_recomputations(cost) : std::vector<Recompute>{*config.plan.recompute};
}

InvalidInput refused(const RunConfig& config, const DoesNotFit& why) {
  if (config.plan.memory_cap) return InvalidInput(why.message());
  return InvalidInput(
      why.message("the cap is what a rank's memory leaves beside weights, gradients and optimizer; "
                  "'slimpack fit' looks for changes that fit"));
}

}  // namespace slimpack
