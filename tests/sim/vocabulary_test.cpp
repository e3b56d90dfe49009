// Steps whose vocabulary is spread over the pipeline.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <tuple>

#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/spread_vocabulary.h"
#include "tests/sim/expect_starts.h"

namespace slimpack {
namespace {

using testing::StepCase;

TEST(Vocabulary, RanksWaitForEachOther) {
  // The order of VocabularyActions.StandBetweenTheForwardAndTheBackwardOfATick with F = 1, B = 2,
  // H = 1, E = G = 0. Rank 1 runs F0 in [1, 2]. H0 in [2, 3]: rank 0 has run F1 by then. Then rank
  // 0 runs F2 and waits; rank 1 runs B0 in [3, 5] and F1. H1 in [6, 7]. B0 in [7, 9] on rank 0; B1
  // in [7, 9] and F2 on rank 1. H2 in [10, 11]. B1 in [11, 13] and B2 in [13, 15] on rank 0.
  ReplicaPacks tasks;
  for (int q = 0; q < 3; ++q)
    tasks.packs.forward.push_back({{Slice{SequenceId(q), Tokens(0), Tokens(1)}}});
  tasks.packs.backward = tasks.packs.forward;
  tasks.times.forward.assign(2, std::vector<Nanos>(3, Nanos(1)));
  tasks.times.backward.assign(2, std::vector<Nanos>(3, Nanos(2)));
  tasks.times.joint = {std::vector<Nanos>(3), std::vector<Nanos>(3, Nanos(1)),
                       std::vector<Nanos>(3)};
  tasks.times.forward_transfer.resize(3);
  tasks.times.backward_transfer.resize(3);
  tasks.times.reduce.resize(2);
  tasks.times.step_end.resize(2);
  // Rows of 100 bytes in both ways; 7 more while the head runs.
  tasks.bytes.rows.assign(2, std::vector<Bytes>(3));
  tasks.bytes.kv.assign(2, std::vector<Bytes>(3));
  tasks.bytes.dkv = tasks.bytes.kv;
  tasks.bytes.forward_transient = tasks.bytes.backward_transient = tasks.bytes.rows;
  tasks.bytes.forward_input = tasks.bytes.backward_input = std::vector<Bytes>(3, Bytes(100));
  tasks.bytes.joint_transient = {std::vector<Bytes>(3), std::vector<Bytes>(3, Bytes(7)),
                                 std::vector<Bytes>(3)};
  const StepPlan plan{
      .lengths = {}, .layout = {{0, 1, 2}, {}, true}, .replicas = {{{}, tasks.packs}}};
  const Schedule order = with_vocabulary(plan, {sliced_one_f_one_b(tasks.packs, 2, 2)}).front();
  const SimulationResult result = simulate(std::span(&tasks, 1), std::span(&order, 1));
  EXPECT_EQ(result.makespan, Nanos(15));
  EXPECT_EQ(result.busy, (std::vector<Nanos>{Nanos(12), Nanos(12)}));
  const Nanos bound = makespan_lower_bound(tasks.packs, tasks.times);
  EXPECT_GE(result.makespan, bound);
  EXPECT_GE(bound, Nanos(12));
  // Rank 0: from 9 on B1's input waits, beside the gradient of B0 that waits for G0 until 10. Rank
  // 1: in H0 the input of F1 waits beside the head's input of F0, in H1 that of F2 beside F1's.
  EXPECT_EQ(result.peak_activation, (std::vector<Bytes>{Bytes(200), Bytes(207)}));
}

/// The case with E, H and G of random durations and bytes.
StepCase spread(StepCase step, Rng& rng) {
  step.plan.layout.spread_vocabulary = true;
  step.schedules = with_vocabulary(step.plan, std::move(step.schedules), step.slots);
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r)
    for (const Pass pass : kJointPasses)
      for (std::size_t p = 0; p < step.plan.replicas[r].packs.of(pass).size(); ++p) {
        step.times[r].joint[joint_index(pass)].push_back(
            Nanos(static_cast<std::int64_t>(rng.below(50))));
        step.bytes[r].joint_transient[joint_index(pass)].push_back(
            Bytes(static_cast<std::int64_t>(rng.below(50))));
      }
  return step;
}

/// On two ranks or more.
StepCase random_case(std::uint64_t seed) {
  Rng rng(seed);
  const auto ranks = 2 + static_cast<std::int32_t>(rng.below(3));
  return testing::random_step_case(rng, ranks, 1 + static_cast<std::int32_t>(rng.below(3)));
}

RC_GTEST_PROP(Vocabulary, FitsAnyOrder, (std::uint64_t seed)) {
  const StepCase plain = random_case(seed);
  Rng rng(seed);
  const StepCase step = spread(plain, rng);
  RC_ASSERT(check_step(step.plan, step.schedules, step.slots) == std::vector<std::string>{});
  for (std::size_t r = 0; r < step.schedules.size(); ++r)
    for (std::size_t p = 0; p < step.ranks(); ++p) {
      std::vector<Action> others = step.schedules[r].ranks[p];
      std::erase_if(others, [](const Action& action) { return is_joint(action.pass); });
      RC_ASSERT(others == plain.schedules[r].ranks[p]);
    }
  const std::vector<LoweredSchedule> lowered = lower(step.tasks(), step.schedules, step.slots);
  RC_ASSERT(check_lowered(step.plan, lowered, step.slots) == std::vector<std::string>{});
}

RC_GTEST_PROP(Vocabulary, RunsOnAllRanksAtOnceAndOnThemAlone, (std::uint64_t seed)) {
  Rng rng(seed);
  const StepCase step = spread(random_case(seed), rng);
  const SimulationResult result = step.simulated(true);
  RC_ASSERT(result.makespan >= step.lower_bound());
  RC_ASSERT(result.makespan == step.simulated(false).makespan);
  const auto ranks = static_cast<std::int32_t>(step.ranks());
  std::map<std::tuple<std::int32_t, SpanKind, PackId>, std::vector<Span>> joint;
  for (const Span& span : result.timeline.spans)
    if (span.kind == SpanKind::kEmbedding || span.kind == SpanKind::kHead ||
        span.kind == SpanKind::kEmbeddingGradient)
      joint[{span.rank / ranks, span.kind, span.pack}].push_back(span);
  for (const auto& [which, spans] : joint) {
    RC_ASSERT(spans.size() == step.ranks());
    for (const Span& span : spans)
      RC_ASSERT(span.start == spans.front().start && span.end == spans.front().end);
  }
  testing::expect_starts(step, result.timeline);
  // Rows that wait for E, H and G are gone at the end.
  std::map<std::int32_t, Bytes> last;
  for (const MemorySample& sample : result.timeline.memory) last[sample.rank] = sample.bytes;
  for (const auto& [rank, bytes] : last) RC_ASSERT(bytes == Bytes(0));
}

}  // namespace
}  // namespace slimpack
