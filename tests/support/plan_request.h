// A step to plan: everything that tests vary, side by side.
#pragma once

#include <optional>
#include <vector>

#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/planner.h"

namespace slimpack::testing {

struct PlanRequest {
  SequenceLengths lengths;
  std::int32_t pp = 1;
  std::int32_t dp = 1;
  PlannerKind planner = PlannerKind::kSlimpack;
  Tokens granularity{128};
  Tokens context{0};
  std::optional<Bytes> memory_cap = std::nullopt;
  std::optional<StageLayout> layout = std::nullopt;  ///< absent: balances the lengths
  std::vector<std::vector<double>> speed = {};
  std::int32_t most_merged = 1;
  bool exchange_context = false;
  std::int32_t effort = 1;
  BackwardKind backward = BackwardKind::kWhole;
  SolverKind solver = SolverKind::kFluid;
  CutsKind cuts = CutsKind::kAny;
  Nanos time_budget{0};
  std::vector<Recompute> recompute = {Recompute::kElementwise};
  bool mixed_recompute = false;
  std::int32_t stages_per_rank = 1;

  [[nodiscard]] Job job(const Costs& cost) const {
    return {.layout = layout ? *layout : balanced_layout(cost, lengths, pp, stages_per_rank),
            .replicas = dp,
            .speed = speed,
            .memory_cap = memory_cap,
            .context = context};
  }
  [[nodiscard]] Choices choices() const {
    return {.planner = planner,
            .granularity = granularity,
            .most_merged = most_merged,
            .exchange_context = exchange_context,
            .effort = effort,
            .backward = backward,
            .solver = solver,
            .cuts = cuts,
            .time_budget = time_budget,
            .recompute = recompute,
            .mixed_recompute = mixed_recompute};
  }
};

[[nodiscard]] inline PlanOutcome plan_step(const PlanRequest& request, const Costs& cost) {
  return slimpack::plan_step({request.job(cost), request.lengths, request.choices(), cost});
}

[[nodiscard]] inline RatedPlan baseline_step(const Baseline& baseline, const PlanRequest& request,
                                             const Costs& cost) {
  return slimpack::baseline_step(baseline,
                                 {request.job(cost), request.lengths, request.choices(), cost});
}

}  // namespace slimpack::testing
