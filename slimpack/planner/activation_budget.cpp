#include "slimpack/planner/activation_budget.h"

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/cost/memory_model.h"

namespace slimpack {

std::optional<ActivationBudget> activation_budget(const Costs& cost, const StageLayout& layout,
                                                  std::int32_t replicas) {
  if (cost.memory == Bytes(0)) return std::nullopt;
  ActivationBudget budget;
  budget.memory = cost.memory;
  budget.reserve = Bytes(cost.memory.count() / 100 * kReservedPercent);
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const Bytes states = model_state_bytes(cost, layout, StageId(s), replicas);
    if (states <= budget.states) continue;
    budget.states = states;
    budget.stage = StageId(s);
  }
  return budget;
}

std::optional<Bytes> activation_cap(const Costs& cost, const StageLayout& layout,
                                    std::int32_t replicas) {
  const auto budget = activation_budget(cost, layout, replicas);
  if (!budget) return std::nullopt;
  if (budget->available() < Bytes(1))
    invalid_input(
        "weights, gradients and optimizer need {} on a rank of stage {}, which has {}, {}% of it "
        "kept free; raise parallel.tp, pp or dp, as 'slimpack fit' advises",
        human_bytes(budget->states), budget->stage.value(), human_bytes(budget->memory),
        kReservedPercent);
  return budget->available();
}

}  // namespace slimpack
