#include <gtest/gtest.h>

#include "slimpack/schedule/schedule.h"
#include "slimpack/schedule/step_graph.h"
#include "tests/support/whole_packs.h"

namespace slimpack {
namespace {

PackPlan packs_of(std::int32_t count) {
  return testing::whole_packs(count, 1).replicas.front().packs;
}

/// Every F, I and W takes 1, a whole backward 2; rows travel in no time.
StepGraph run(const Schedule& order, std::size_t packs) {
  TaskTimes times;
  const std::vector<Nanos> one(packs, Nanos(1));
  times.forward.assign(order.stages(), one);
  times.backward.assign(order.stages(), std::vector<Nanos>(packs, Nanos(2)));
  times.input_gradient = times.weight_gradient = times.forward;
  times.forward_transfer = times.backward_transfer = std::vector<Nanos>(packs);
  StepGraph graph(std::span(&order, 1), kChannelSlots);
  graph.set_times(0, times);
  graph.run();
  return graph;
}

/// The most packs of a stage that a rank holds from F to W.
std::int64_t most_held(std::span<const StepNode> nodes) {
  std::int64_t held = 0, most = 0;
  for (const StepNode& node : nodes) {
    if (node.action.pass == Pass::kForward) most = std::max(most, ++held);
    if (node.action.pass == Pass::kWeightGradient) --held;
  }
  return most;
}

TEST(ZeroBubbleV, HasThePublishedListsOfTwoRanks) {
  // Rank 0 runs stages 0 and 3. Its first stage runs 2 · 2 − 1 packs before the first one comes
  // back; then both stages take turns.
  EXPECT_EQ(schedule_to_text(zero_bubble_v(packs_of(3), 2, true)),
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,3F2,3I2,3W2,0I1,0W1,0I2,0W2\n"
            "1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1I1,2I2,1I2,1W1,2W2,1W2\n");
}

TEST(ZeroBubbleV, IsCorrectForAnyNumberOfPacksAndRanks) {
  for (int ranks = 2; ranks <= 8; ++ranks)
    for (std::int32_t packs = 0; packs <= 20; ++packs)
      for (const bool split : {false, true})
        EXPECT_EQ(check_schedule(packs_of(packs), zero_bubble_v(packs_of(packs), ranks, split)),
                  std::vector<std::string>{})
            << ranks << " ranks, " << packs << " packs";
}

TEST(ZeroBubbleV, LeavesNoBubbleInTheMemoryOf1F1B) {
  // The paper's table for T_F = T_B = T_W: no bubble, and as much memory as 1F1B. A rank so works
  // without a pause from its first action to its last: 6 times the packs. The last rank begins p −
  // 1 later than the first. 1F1B's first rank holds p packs of all its layers; half as large
  // stages hold 2p.
  for (int ranks = 2; ranks <= 8; ++ranks)
    for (const std::int32_t packs : {2 * ranks - 1, 2 * ranks, 4 * ranks}) {
      const StepGraph graph =
          run(zero_bubble_v(packs_of(packs), ranks, true), static_cast<std::size_t>(packs));
      for (std::size_t r = 0; r < graph.ranks(); ++r) {
        const std::span<const StepNode> nodes = graph.rank(0, r);
        EXPECT_EQ(nodes.front().start, static_cast<std::int64_t>(r));
        EXPECT_EQ(nodes.back().end - nodes.front().start, 6 * packs);
        EXPECT_EQ(most_held(nodes), 2 * ranks);
      }
    }
}

}  // namespace
}  // namespace slimpack
