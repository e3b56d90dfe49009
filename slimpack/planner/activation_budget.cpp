#include "slimpack/planner/activation_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "slimpack/base/human.h"
#include "slimpack/cost/known_error.h"
#include "slimpack/cost/stage_table.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

namespace {

GpuShare gpu_share(const Costs& cost, const GpuGroups& groups) {
  if (!cost.device.gpu) return {};
  // A rank computes in one queue of the allocator, and copies rows to the host in another.
  const int queues = cost.host.per_byte > 0 ? 2 : 1;
  return {cost.device.gpu->context, cost.device.gpu->allocator_page * queues,
          cost.device.gpu->peer_buffers * groups.node_peers()};
}

}  // namespace

std::int64_t reserved_percent(const Costs& cost) {
  const auto known = static_cast<std::int64_t>(std::ceil(known_error(cost).memory));
  return cost.device.gpu ? known : std::max(known, kUncountedOfCpu);
}

std::optional<ActivationBudget> activation_budget(const Costs& cost, const StageLayout& layout,
                                                  std::int32_t replicas, std::int32_t most_merged) {
  if (cost.device.memory == Bytes(0)) return std::nullopt;
  ActivationBudget budget;
  budget.memory = cost.device.memory;
  budget.reserved_percent = reserved_percent(cost);
  const auto [hundreds, rest] = std::div(cost.device.memory.count(), std::int64_t{100});
  budget.reserve = Bytes(hundreds * budget.reserved_percent + rest * budget.reserved_percent / 100);
  budget.gpu = gpu_share(cost, {.placement = {.ranks_per_node = cost.host.ranks_per_node,
                                              .tensor = cost.tp,
                                              .stages = layout.ranks(),
                                              .replicas = replicas},
                                .most_merged = most_merged});
  const StageTable table = stage_table(cost, layout, {}, {replicas, {}});
  for (std::int32_t r = 0; r < layout.ranks(); ++r) {
    const Bytes states = table.state(r).total();
    if (states <= budget.states) continue;
    budget.states = states;
    budget.rank = r;
  }
  return budget;
}

std::optional<Bytes> activation_cap(const Costs& cost, const StageLayout& layout,
                                    std::int32_t replicas, std::int32_t most_merged) {
  const auto budget = activation_budget(cost, layout, replicas, most_merged);
  if (!budget) return std::nullopt;
  if (budget->available() < Bytes(1))
    throw JobDoesNotFit(fmt::format(
        "weights, gradients and optimizer need {} on pipeline rank {}, which has {}, {}% of it "
        "kept free{}; raise parallel.tp, pp or dp, as 'slimpack fit' advises",
        human_bytes(budget->states), budget->rank, human_bytes(budget->memory),
        budget->reserved_percent,
        cost.device.gpu ? fmt::format(" and {} taken by CUDA, its allocator and NCCL",
                                      human_bytes(budget->gpu.total()))
                        : ""));
  return budget->available();
}

}  // namespace slimpack
