#include "slimpack/baselines/step_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "slimpack/baselines/packed.h"

namespace slimpack {

PackCost step_cost(const BaselineRequest& request) {
  PackCost sum;
  for (std::int32_t s = 0; s < request.layout.stages(); ++s)
    for (const Pass pass : kWholePasses)
      sum = sum + stage_cost(request.cost, request.layout, StageId(s), pass);
  return sum;
}

std::vector<std::int64_t> sequence_costs(const BaselineRequest& request) {
  const PackCost cost = step_cost(request);
  std::vector<std::int64_t> costs;
  costs.reserve(request.lengths.size());
  for (const Tokens length : request.lengths)
    costs.push_back(std::llround(std::ceil(cost(Slice{SequenceId(), Tokens(0), length}))));
  return costs;
}

StepPlan step_of(const BaselineRequest& request, std::vector<PackPlan> replicas) {
  StepPlan plan{request.lengths, request.layout, {}};
  for (PackPlan& packs : replicas) {
    ReplicaPlan& replica = plan.replicas.emplace_back();
    for (const MicroPack& pack : packs.forward)
      for (const Slice& slice : pack.slices) replica.sequences.push_back(slice.sequence);
    std::sort(replica.sequences.begin(), replica.sequences.end());
    replica.sequences.erase(std::unique(replica.sequences.begin(), replica.sequences.end()),
                            replica.sequences.end());
    replica.packs = std::move(packs);
  }
  return plan;
}

StepPlan whole_step(const BaselineRequest& request,
                    const std::vector<std::vector<std::vector<SequenceId>>>& packs) {
  std::vector<PackPlan> replicas;
  for (const auto& own : packs) {
    PackPlan& plan = replicas.emplace_back();
    for (const auto& pack : own) plan.forward.push_back(whole_pack(request.lengths, pack));
    plan.backward = plan.forward;
  }
  return step_of(request, std::move(replicas));
}

}  // namespace slimpack
