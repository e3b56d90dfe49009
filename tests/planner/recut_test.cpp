#include "slimpack/planner/recut.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "slimpack/planner/cut_lanes.h"
#include "slimpack/planner/step_shares.h"
#include "slimpack/sim/simulate.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

/// A random step for four replicas that may share sequences.
struct SharedStep {
  testing::PlanRequest request;
  Choices choices;
  StepProblem problem;

  SharedStep(Rng& rng, const Costs& cost)
      : request(four_replicas(rng)),
        choices(request.choices()),
        problem(step_problem(stage_table(cost, request.job(cost).layout, {}, {4, {}}),
                             request.lengths, choices)) {}

 private:
  static testing::PlanRequest four_replicas(Rng& rng) {
    testing::PlanRequest request = testing::random_request(rng);
    request.dp = request.most_merged = 4;
    return request;
  }
};

/// The packs of a unit as a plan of the unit's sequences alone, in ids of the step.
std::vector<std::string> broken_rules(const Unit& unit, const std::vector<PackPlan>& packs,
                                      const SharedStep& step) {
  StepPlan plan;
  plan.lengths = step.request.lengths;
  plan.layout = step.problem.table.layout();
  plan.replicas.resize(4);
  for (std::size_t i = 0; i < packs.size(); ++i) {
    const ReplicaShare& share = unit.replicas[i];
    PackPlan own = packs[i];
    for (auto* pass : {&own.forward, &own.backward})
      for (MicroPack& pack : *pass)
        for (Slice& slice : pack.slices) slice.sequence = share.sequences[slice.sequence.index()];
    plan.replicas[share.replica.index()] = {share.sequences, own};
  }
  std::vector<std::string> errors = check_plan(plan, 100);
  // Sequences of other units are missing.
  std::erase_if(errors, [](const std::string& line) {
    return line.find("on no replica") != std::string::npos;
  });
  return errors;
}

TEST(CutLanes, StandForTheSamePacksAndStayPlansAfterAnyMoves) {
  const Costs cost = testing::small_cost(4);
  int moved = 0, shared = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const SharedStep step(rng, cost);
    const UnitCost unit_costs = unit_cost(step.problem, 0);
    for (const Assignment& assignment : step_shares(step.problem).assignments)
      for (const Unit& unit : units_of(step.request.lengths, assignment)) {
        UnitCutOptions options;
        options.fluid.granularity = step.choices.granularity;
        options.fluid.packs = 1 + static_cast<int>(rng.below(8));
        options.fluid.fill = rng.below(2) == 0;
        const std::vector<PackPlan> packs = cut_unit(unit, unit_costs, options);
        auto lanes = cut_lanes(unit, packs);
        ASSERT_TRUE(lanes);
        EXPECT_EQ(packs_of(unit, *lanes), packs);
        if (lanes->empty()) continue;
        shared += unit.replicas.size() > 1 ? 1 : 0;
        for (int i = 0; i < 20; ++i) {
          CutLane& lane = (*lanes)[rng.below(lanes->size())];
          const CutMove move{static_cast<CutMove::Kind>(rng.below(3)),
                             rng.below(lane.cuts.size() + 1), 2 * rng.uniform() - 1};
          moved += move.apply(lane, step.choices.granularity) ? 1 : 0;
        }
        const auto errors = broken_rules(unit, packs_of(unit, *lanes), step);
        EXPECT_TRUE(errors.empty()) << errors.front();
      }
  }
  EXPECT_GT(moved, 500);
  EXPECT_GT(shared, 50);
}

TEST(CutLanes, AreNoneWhereTheSlicesOfASequenceLieApart) {
  // The only replica runs the head of 0, then 1, then the tail of 0.
  const Unit unit{{{ReplicaId(0), {SequenceId(0), SequenceId(1)}, {Tokens(32), Tokens(16)}, {}}}};
  const Slice whole{SequenceId(1), Tokens(0), Tokens(16)};
  const Slice head{SequenceId(0), Tokens(0), Tokens(16)};
  const Slice tail{SequenceId(0), Tokens(16), Tokens(32)};
  EXPECT_FALSE(cut_lanes(unit, {{{{{head, whole}}, {{tail}}}, {{{tail}}, {{head, whole}}}}}));
  EXPECT_TRUE(cut_lanes(unit, {{{{{head}}, {{tail, whole}}}, {{{tail}}, {{head, whole}}}}}));
}

TEST(CutMove, MovesAddsAndDropsCutsWhereTheyMayLie) {
  // Sequences of 64 and 8 tokens, cut at 32; cuts lie at multiples of 16.
  CutLane lane{.order = {SequenceId(0), SequenceId(1)}, .begins = {0, 64, 72}, .cuts = {32}};
  const Tokens grid(16);
  using Kind = CutMove::Kind;
  // Half the way to the end is 52: the grid has 48.
  EXPECT_TRUE((CutMove{Kind::kShift, 0, 0.5}.apply(lane, grid)));
  EXPECT_EQ(lane.cuts, std::vector<std::int64_t>{48});
  // Three quarters of the way to the end are 66: the short sequence has no cut, its begin is near.
  EXPECT_TRUE((CutMove{Kind::kShift, 0, 0.75}.apply(lane, grid)));
  EXPECT_EQ(lane.cuts, std::vector<std::int64_t>{64});
  EXPECT_FALSE((CutMove{Kind::kShift, 1, 0.5}.apply(lane, grid)));  // there is one cut
  EXPECT_TRUE((CutMove{Kind::kAdd, 0, 0.5}.apply(lane, grid)));
  EXPECT_EQ(lane.cuts, (std::vector<std::int64_t>{32, 64}));
  EXPECT_FALSE((CutMove{Kind::kAdd, 2, 0.5}.apply(lane, grid)));  // 8 tokens cannot be cut
  EXPECT_TRUE((CutMove{Kind::kDrop, 1, 0}.apply(lane, grid)));
  EXPECT_EQ(lane.cuts, std::vector<std::int64_t>{32});
}

/// The step of a solution, simulated from its packs and orders alone, by all replicas together.
Nanos simulated(const SharedStep& step, const StepSolution& solution) {
  std::vector<ReplicaPacks> replicas(4);
  std::vector<Schedule> orders(4);
  for (std::size_t u = 0; u < solution.units.size(); ++u)
    for (std::size_t i = 0; i < solution.units[u].replicas.size(); ++i) {
      const ReplicaShare& share = solution.units[u].replicas[i];
      const std::size_t r = share.replica.index();
      const PackPlan& packs = solution.rated[u].packs[i];
      replicas[r] = {packs, step.problem.table.times(packs, share.replica),
                     step.problem.table.bytes(packs, share.lengths)};
      orders[r] = own_order(solution.rated[u].schedule, packs);
    }
  return simulate(replicas, orders, {kChannelSlots, false}).makespan;
}

TEST(Recut, NeverMakesAStepLongerAndShortensMany) {
  const Costs cost = testing::small_cost(4);
  int shorter = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const SharedStep step(rng, cost);
    const SearchRequest request{.problem = step.problem,
                                .depth = {.effort = 1 + static_cast<std::int32_t>(rng.below(2))}};
    auto found = search_step(request, step_shares(step.problem)).solution;
    ASSERT_TRUE(found);
    const Nanos before = simulated(step, *found);
    StepSolution again = *found;
    recut(request, 20'000, again);
    const Nanos after = simulated(step, again);
    EXPECT_LE(after, before);
    shorter += after < before ? 1 : 0;
    for (std::size_t u = 0; u < again.units.size(); ++u) {
      EXPECT_EQ(again.units[u].replicas, found->units[u].replicas);
      const auto errors = broken_rules(again.units[u], again.rated[u].packs, step);
      EXPECT_TRUE(errors.empty()) << errors.front();
    }
  }
  EXPECT_GT(shorter, 10);
}

}  // namespace
}  // namespace slimpack
