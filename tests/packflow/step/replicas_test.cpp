// Steps of several replicas and tensor-parallel ranks, with merged MicroPacks: whatever is run
// where, the gradients are those of one rank that runs whole documents.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "slimpack/packflow/checkpoint/model_tensors.h"
#include "slimpack/packflow/step/engine.h"
#include "tests/packflow/step/step_outcome.h"
#include "tests/packflow/support/random_run.h"
#include "tests/packflow/support/small_runs.h"
#include "tests/support/expect_holds.h"

namespace slimpack {
namespace {

using testing::random_run;
using testing::RandomRun;
using testing::run_once;
using testing::StepOutcome;

/// Runs the documents whole and one by one on one rank.
StepOutcome run_whole(const RandomRun& random) {
  const testing::SmallStep step =
      testing::packed_step(random.shape, Dtype::kFp64, 1, random.plan.lengths, Tokens(40));
  Engine engine(testing::engine_options(step, 3));
  return testing::outcome_of(engine, engine.run(step.plan, lower(step.plan, {&step.schedule, 1}),
                                                random.tokens, std::nullopt));
}

/// The share of the usual number of cases: each case runs models.
constexpr double kShare = 0.25;

TEST(Replicas, GiveTheGradientsOfWholeDocumentsOnOneRank) {
  testing::expect_holds(
      [](std::uint64_t seed) {
        Rng rng(seed);
        const RandomRun random = random_run(rng);
        const StepOutcome actual = run_once(random), expected = run_whole(random);
        RC_ASSERT(std::abs(actual.result.loss - expected.result.loss) <=
                  1e-11 * std::abs(expected.result.loss));
        RC_ASSERT(std::abs(actual.result.gradient_norm - expected.result.gradient_norm) <=
                  1e-10 * expected.result.gradient_norm);
        RC_ASSERT(actual.gradients.size() == expected.gradients.size());
        // Gradients of queries are rounding alone where every sequence has one token.
        double largest = 0;
        for (const auto& [name, gradient] : expected.gradients)
          largest = std::max(largest, gradient.abs().max().item<double>());
        for (const auto& [name, gradient] : expected.gradients) {
          const double scale = std::max(gradient.abs().max().item<double>(), 1e-6 * largest);
          const double error = (actual.gradients.at(name) - gradient).abs().max().item<double>();
          RC_ASSERT(error <= 1e-9 * scale);
        }
      },
      kShare);
}

TEST(Replicas, RepeatThemselvesBitByBit) {
  testing::expect_holds(
      [](std::uint64_t seed) {
        Rng rng(seed);
        const RandomRun random = random_run(rng);
        const StepOutcome first = run_once(random, Dtype::kBf16),
                          second = run_once(random, Dtype::kBf16);
        RC_ASSERT(first.result.loss == second.result.loss);
        RC_ASSERT(first.result.gradient_norm == second.result.gradient_norm);
        for (const auto& [name, gradient] : first.gradients)
          RC_ASSERT(gradient.equal(second.gradients.at(name)));
      },
      kShare);
}

}  // namespace
}  // namespace slimpack
