// The work of planning for a thousand ranks, by what the planner tries and makes.
#include <gtest/gtest.h>

#include "slimpack/planner/planner.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

/// Counts of planning a step on 16 stages with 16 documents for each replica: 1,024 ranks are 64
/// replicas.
struct Planned {
  std::size_t candidates = 0;
  std::size_t packs = 0;
  std::size_t instructions = 0;
};

Planned plan_for(std::int32_t replicas) {
  Costs cost = testing::small_cost();
  cost.shape.set_layers(32);
  Rng rng(1);
  SequenceLengths lengths(static_cast<std::size_t>(16 * replicas));
  for (Tokens& length : lengths)
    length = Tokens(1 + static_cast<std::int64_t>(rng.below(std::uint64_t{16} << rng.below(9))));
  const Job job{
      .layout = balanced_layout(cost, lengths, 16), .replicas = replicas, .context = Tokens(4096)};
  Planned planned;
  const PlanOutcome outcome =
      plan_step({job, lengths, Choices{}, cost}, [&] { ++planned.candidates; });
  for (const ReplicaPlan& replica : outcome.step->plan.replicas)
    planned.packs += replica.packs.forward.size() + replica.packs.backward.size();
  for (const LoweredSchedule& lowered : outcome.step->lowered)
    for (const auto& stage : lowered.ranks) planned.instructions += stage.size();
  return planned;
}

TEST(ThousandRanks, ArePlannedWithAsMuchWorkForEachReplicaAsOneIs) {
  const Planned one = plan_for(1), all = plan_for(64);
  // The search looks at more ways to cut where replicas differ: measured 77 against 38. Most
  // replicas have fewer documents of unlike lengths than the one, so their plans are smaller.
  EXPECT_LE(all.candidates, 4 * one.candidates);
  EXPECT_LE(all.packs, 64 * one.packs);
  EXPECT_LE(all.instructions, 64 * one.instructions);
}

}  // namespace
}  // namespace slimpack
