// Errors of a step's prediction. The simulator stands for the measurement, so that what differs is
// known.
#include "slimpack/planner/step_errors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "slimpack/planner/planner.h"
#include "tests/support/small_cost.h"

namespace slimpack {
namespace {

using testing::small_cost;

/// Six MicroPacks of two sequences each.
RatedPlan planned() {
  const SequenceLengths lengths(12, Tokens(4000));
  return *plan_step({{.layout = {{0, 3, 6}}, .context = Tokens(8192)},
                     lengths,
                     {.planner = PlannerKind::kPacked},
                     small_cost()})
              .step;
}

Timeline predicted() {
  return predict(planned(), small_cost()).timeline;
}

/// The first forward of rank 1, `factor` as long.
Timeline with_slow_action(double factor) {
  Timeline timeline = predicted();
  const auto slow = std::ranges::find_if(timeline.spans, [](const Span& s) {
    return s.rank == 1 && s.kind == SpanKind::kForward && s.pack == PackId(0);
  });
  const auto length = static_cast<double>((slow->end - slow->start).count());
  slow->end = slow->start + Nanos(static_cast<std::int64_t>(factor * length));
  return timeline;
}

TEST(StepErrors, OfAPerfectPredictionAreNone) {
  const std::vector<Timeline> measured(3, predicted());
  const StepErrors errors = step_errors(planned(), small_cost(), measured);
  EXPECT_EQ(errors.error(), 0);
  EXPECT_EQ(errors.replayed_error(), 0);
  EXPECT_EQ(errors.memory_error(), 0);
  EXPECT_EQ(errors.jitter, 0);
  EXPECT_TRUE(errors.same_order);
  EXPECT_DOUBLE_EQ(errors.measured_bubble, errors.predicted_bubble);
  ASSERT_EQ(errors.worst.size(), 10U);
  for (const ActionError& action : errors.worst) EXPECT_EQ(action.error(), 0);
}

TEST(StepErrors, PutTheWorstActionFirst) {
  const std::vector<Timeline> measured(3, with_slow_action(2));
  const StepErrors errors = step_errors(planned(), small_cost(), measured, 4);
  ASSERT_EQ(errors.worst.size(), 4U);
  const ActionError& worst = errors.worst.front();
  EXPECT_EQ(worst.work, (Work{1, SpanKind::kForward, StageId(1), PackId(0)}));
  EXPECT_NEAR(worst.error(), -0.5, 1e-6);
  EXPECT_EQ(worst.spread, 0);
  // The error repeats, no other action is off, and 8,000 rows are not few: kernels are left as its
  // cause.
  EXPECT_EQ(worst.reason,
            "2 slices of 4,000 tokens on average: kernels are not as the cost model says");
}

TEST(StepErrors, NameTheMachineWhereRepetitionsDiffer) {
  // Median 1.3, from 1 to 2: a spread of 1 ÷ 1.3.
  const std::vector<Timeline> measured{with_slow_action(1), with_slow_action(1.3),
                                       with_slow_action(2)};
  const StepErrors errors = step_errors(planned(), small_cost(), measured);
  EXPECT_NEAR(errors.worst.front().spread, 1 / 1.3, 1e-3);
  EXPECT_NE(errors.worst.front().reason.find("repetitions differ"), std::string::npos);
}

TEST(StepErrors, NameARankThatIsSlowAsAWhole) {
  Timeline slow = predicted();
  for (Span& s : slow.spans)
    if (s.rank == 0 && s.kind == SpanKind::kBackward) s.end = s.end + (s.end - s.start) / 2;
  const StepErrors errors = step_errors(planned(), small_cost(), std::vector<Timeline>{slow});
  EXPECT_EQ(errors.worst.front().reason, "all backward of rank 0 take 1.50 × their prediction");
}

TEST(StepErrors, SeeAnotherOrderAndMorePeakMemory) {
  Timeline other = predicted();
  std::vector<Span*> forwards;
  for (Span& s : other.spans)
    if (s.rank == 0 && s.kind == SpanKind::kForward) forwards.push_back(&s);
  ASSERT_GE(forwards.size(), 2U);
  std::swap(forwards[0]->pack, forwards[1]->pack);
  other.peak_activation[0] = other.peak_activation[0] * 4 / 5;
  const StepErrors errors = step_errors(planned(), small_cost(), std::vector<Timeline>{other});
  EXPECT_FALSE(errors.same_order);
  EXPECT_NEAR(errors.memory_error(), 0.25, 1e-6);  // predicted 5/4 of what was measured
}

}  // namespace
}  // namespace slimpack
