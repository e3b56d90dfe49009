// Steps of several replicas and tensor-parallel ranks, with merged MicroPacks: whatever is run
// where, the gradients are those of one rank that runs whole documents.
#include <gtest/gtest.h>

#include "slimpack/packflow/checkpoint.h"
#include "slimpack/packflow/engine.h"
#include "tests/packflow/small_runs.h"
#include "tests/packflow/tensors.h"
#include "tests/support/expect_holds.h"
#include "tests/support/random_split.h"
#include "tests/support/random_step.h"

namespace slimpack {
namespace {

using testing::MergedAt;
using testing::random_step;
using testing::RandomOrders;
using testing::relative_error;

struct Outcome {
  StepResult result;
  NamedTensors gradients;
};

/// A random step with its model and tokens.
struct RandomRun {
  explicit RandomRun(Rng& rng)
      : plan(random_step(rng, 1 + static_cast<int>(rng.below(3)), MergedAt::kAnywhere)),
        schedules(RandomOrders(rng, plan, plan.layout.stages(), kChannelSlots).draw()),
        shape(testing::small_shape(2 * plan.layout.stages(), rng.below(2) == 0)) {
    shape.tie_embeddings = rng.below(2) == 0;
    // Four ranks share one or two key/value heads.
    shape.num_heads = 4;
    shape.num_kv_heads = 1 + static_cast<std::int64_t>(rng.below(2));
    if (rng.below(2) == 0) {
      shape.family = ModelFamily::kLlama;
      shape.qk_norm = false;
      shape.qkv_bias = shape.output_bias = shape.mlp_bias = true;
    }
    tensor = 1 << rng.below(3);
    if (rng.below(2) == 0) testing::split_some(rng, plan, schedules);
    if (rng.below(2) == 0)
      for (std::int64_t l = 0; l < shape.num_layers; ++l)
        plan.recompute.push_back(all_recomputations()[rng.below(all_recomputations().size())]);
    tokens = testing::random_tokens(rng, shape, plan.lengths);
  }

  [[nodiscard]] EngineOptions options(Dtype dtype) const {
    EngineOptions options;
    options.shape = shape;
    options.dtype = dtype;
    options.layout = plan.layout;
    options.replicas = static_cast<std::int32_t>(plan.replicas.size());
    options.tensor = tensor;
    options.context = *std::ranges::max_element(plan.lengths);
    options.seed = 3;
    return options;
  }

  [[nodiscard]] Outcome run(Dtype dtype = Dtype::kFp64) const {
    Engine engine(options(dtype));
    Outcome out{engine.run(plan, schedules, tokens, std::nullopt), {}};
    out.gradients = named_gradients(engine);
    return out;
  }

  /// The same documents, whole and one by one on one rank.
  [[nodiscard]] Outcome run_whole() const {
    const testing::SmallStep step =
        testing::packed_step(shape, Dtype::kFp64, 1, plan.lengths, Tokens(40));
    Engine engine(testing::engine_options(step, 3));
    Outcome out{engine.run(step.plan, {&step.schedule, 1}, tokens, std::nullopt), {}};
    out.gradients = named_gradients(engine);
    return out;
  }

  StepPlan plan;
  std::vector<Schedule> schedules;
  ModelShape shape;
  std::int32_t tensor = 1;
  StepTokens tokens;
};

/// Of the usual number of cases: each runs models.
constexpr double kShare = 0.25;

TEST(Replicas, GiveTheGradientsOfWholeDocumentsOnOneRank) {
  testing::expect_holds(
      [](std::uint64_t seed) {
        Rng rng(seed);
        const RandomRun random(rng);
        const Outcome actual = random.run(), expected = random.run_whole();
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
        const RandomRun random(rng);
        const Outcome first = random.run(Dtype::kBf16), second = random.run(Dtype::kBf16);
        RC_ASSERT(first.result.loss == second.result.loss);
        RC_ASSERT(first.result.gradient_norm == second.result.gradient_norm);
        for (const auto& [name, gradient] : first.gradients)
          RC_ASSERT(gradient.equal(second.gradients.at(name)));
      },
      kShare);
}

}  // namespace
}  // namespace slimpack
