#include "slimpack/baselines/step_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "slimpack/baselines/packed.h"

namespace slimpack {

PackCost step_cost(const StageTable& table) {
  PackCost sum;
  for (std::int32_t s = 0; s < table.layout().stages(); ++s)
    for (const Pass pass : kWholePasses) sum = sum + table.stage(StageId(s), pass);
  return sum;
}

std::vector<std::int64_t> sequence_costs(const StageTable& table, const SequenceLengths& lengths) {
  const PackCost step = step_cost(table);
  std::vector<std::int64_t> costs;
  costs.reserve(lengths.size());
  for (const Tokens length : lengths)
    costs.push_back(std::llround(std::ceil(step(Slice{SequenceId(), Tokens(0), length}))));
  return costs;
}

StepPlan step_of(const StageLayout& layout, const SequenceLengths& lengths,
                 std::vector<PackPlan> replicas) {
  StepPlan plan{lengths, layout, {}};
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

StepPlan whole_step(const StageLayout& layout, const SequenceLengths& lengths,
                    const std::vector<std::vector<std::vector<SequenceId>>>& packs) {
  std::vector<PackPlan> replicas;
  for (const auto& own : packs) {
    PackPlan& plan = replicas.emplace_back();
    for (const auto& pack : own) plan.forward.push_back(whole_pack(lengths, pack));
    plan.backward = plan.forward;
  }
  return step_of(layout, lengths, std::move(replicas));
}

}  // namespace slimpack
