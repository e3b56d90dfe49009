#include "slimpack/job/configured_job.h"

#include <utility>

#include "slimpack/cost/abilities.h"
#include "slimpack/job/configured_merging.h"
#include "slimpack/planner/activation_budget.h"
#include "slimpack/planner/speed_tracker.h"

namespace slimpack {

namespace {

/// Otherwise the cap is what the model's states leave of a rank's memory.
bool says_cap(const RunConfig& config) {
  return config.plan.memory_cap || config.plan.unlimited_memory;
}

std::optional<Bytes> configured_cap(const RunConfig& config, const Costs& cost,
                                    const StageLayout& layout) {
  if (says_cap(config)) return config.plan.memory_cap;
  const std::optional<Bytes> cap =
      activation_cap(cost, layout, config.parallel.dp, configured_merging(config, cost));
  if (!cap)
    invalid_input(
        "the costs ({}) do not say how much memory a rank has, and without it a plan has no cap; "
        "measure again with 'slimpack profile', or set plan.memory_cap to bytes or to \"none\"",
        cost.origin.source);
  return cap;
}

}  // namespace

bool states_fit(const RunConfig& config, const Costs& cost, const StageLayout& layout) {
  if (says_cap(config)) return true;
  const std::optional<ActivationBudget> budget =
      activation_budget(cost, layout, config.parallel.dp, configured_merging(config, cost));
  return !budget || budget->available() > Bytes(0);
}

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
          .most_merged = configured_merging(config, cost),
          .exchange_context = config.parallel.exchange_context,
          .backward = config.plan.backward,
          .solver = config.plan.solver,
          .cuts = config.plan.cuts,
          .time_budget = from_seconds(config.plan.time_budget),
          .recompute = allowed_recomputations(config, cost),
          .mixed_recompute = !config.plan.recompute};
}

std::vector<Recompute> allowed_recomputations(const RunConfig& config, const Costs& cost) {
  const Abilities able = abilities(cost);
  const bool any = !config.plan.recompute || (able.own_layers && !config.plan.recompute_given);
  return any ? able.recomputations : std::vector<Recompute>{*config.plan.recompute};
}

JobDoesNotFit refused(const RunConfig& config, const DoesNotFit& why) {
  if (config.plan.memory_cap) return JobDoesNotFit(why.message());
  return JobDoesNotFit(
      why.message("the cap is what a rank's memory leaves beside weights, gradients and optimizer; "
                  "'slimpack fit' looks for changes that fit"));
}

}  // namespace slimpack
