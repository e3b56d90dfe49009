#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/planner/planner.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

using testing::PlanRequest;

RC_GTEST_PROP(DoesNotFit, NamesTheLongestSequenceThatFits, (std::uint64_t seed)) {
  Rng rng(seed);
  PlanRequest request = testing::random_request(rng);
  // The layers stay divided as in the whole step; with one stage a step of one sequence has the
  // same layout.
  request.pp = 1;
  request.lengths.push_back(request.context * 4);
  request.context = request.lengths.back();
  request.memory_cap = Bytes(1'000'000 + static_cast<std::int64_t>(rng.below(4'000'000)));
  if (rng.below(3) == 0) request.planner = PlannerKind::kPacked;
  if (rng.below(6) == 0) request.planner = PlannerKind::kSlimpipe;
  const Costs cost = testing::small_cost();
  const PlanOutcome outcome = plan_step(request, cost);
  RC_PRE(outcome.does_not_fit.has_value());
  const DoesNotFit& why = *outcome.does_not_fit;
  RC_ASSERT(why.longest == request.context);
  RC_ASSERT(why.longest_that_fits > Tokens(0));
  PlanRequest single = request;
  single.lengths = {why.longest_that_fits};
  RC_ASSERT(plan_step(single, cost).step.has_value());
  if (why.longest_that_fits == why.longest) return;
  single.lengths = {why.longest_that_fits + Tokens(1)};
  RC_ASSERT(plan_step(single, cost).does_not_fit.has_value());
}

TEST(DoesNotFit, TellsInOneLineWhatIsNeededAndWhatWouldFit) {
  DoesNotFit why{.cap = Bytes(1 << 20),
                 .needed = Bytes(3 << 20),
                 .rank = 2,
                 .longest = Tokens(8192),
                 .longest_that_fits = Tokens(4000)};
  EXPECT_EQ(why.message(),
            "activations need 3,145,728 bytes (3.0 MiB) on pipeline rank 2, the cap is 1,048,576 "
            "bytes (1.0 MiB); the longest sequence has 8,192 tokens, one of up to 4,000 would fit; "
            "raise plan.memory_cap, use more pipeline ranks (parallel.pp) or a shorter "
            "data.context");
  why.longest_that_fits = Tokens(8192);
  EXPECT_NE(why.message().find("each sequence fits alone"), std::string::npos);
  why.longest_that_fits = Tokens(0);
  EXPECT_NE(why.message().find("not even a sequence of one token"), std::string::npos);
}

}  // namespace
}  // namespace slimpack
