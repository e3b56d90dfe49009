// Rows that forward drops and backward computes again, in whole steps.
#include "slimpack/packflow/layer/recompute_rows.h"

#include <gtest/gtest.h>

#include "slimpack/packflow/checkpoint/model_tensors.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/step/stage_step.h"
#include "tests/packflow/support/small_runs.h"
#include "tests/packflow/support/tensors.h"
#include "tests/support/token_bytes.h"

namespace slimpack {
namespace {

using testing::kv_bytes;
using testing::row_bytes;

using slimpack::testing::engine_options;
using slimpack::testing::packed_step;
using slimpack::testing::random_tokens;
using slimpack::testing::relative_error;
using slimpack::testing::sliced_step;
using slimpack::testing::small_shape;
using slimpack::testing::SmallStep;

constexpr std::int32_t kRank = 51;  // one that no engine of these tests uses
constexpr std::int64_t kLayers = 3;

const SequenceLengths& lengths() {
  static const SequenceLengths all{Tokens(70), Tokens(1), Tokens(33), Tokens(2), Tokens(9)};
  return all;
}

NamedTensors gradients_of(const SmallStep& step) {
  Rng rng(11);
  Engine engine(engine_options(step));
  (void)engine.run(step.plan, lower(step.plan, {&step.schedule, 1}),
                   random_tokens(rng, step.cost.shape, lengths()), std::nullopt);
  return named_gradients(engine);
}

class EveryPolicy : public ::testing::TestWithParam<Recompute> {
 protected:
  static RecomputeByLayer everywhere() { return RecomputeByLayer(kLayers, GetParam()); }
};

TEST_P(EveryPolicy, GivesTheGradientsOfAnyOther) {
  for (const bool qk_norm : {false, true}) {
    const auto step = [&](RecomputeByLayer recompute) {
      return sliced_step(small_shape(kLayers, qk_norm), Dtype::kFp64, 1, lengths(), 6, Tokens(8),
                         std::move(recompute));
    };
    const NamedTensors expected = gradients_of(step({}));
    for (const auto& [name, gradient] : gradients_of(step(everywhere())))
      EXPECT_LE(relative_error(gradient, expected.at(name)), 1e-11) << name;
  }
}

TEST_P(EveryPolicy, GivesTheSameBitsEveryTime) {
  const SmallStep step = sliced_step(small_shape(kLayers, true), Dtype::kBf16, 1, lengths(), 6,
                                     Tokens(8), everywhere());
  const NamedTensors expected = gradients_of(step);
  for (const auto& [name, gradient] : gradients_of(step))
    EXPECT_TRUE(gradient.equal(expected.at(name))) << name;
}

TEST_P(EveryPolicy, KeepsTheBytesThatTheMemoryModelCounts) {
  // One forward MicroPack of everything on a stage in the middle: afterwards there are its rows,
  // keys and values, and nothing else.
  for (const bool qk_norm : {false, true})
    for (const Dtype dtype : {Dtype::kFp64, Dtype::kBf16}) {
      const Decoder shape = small_shape(kLayers, qk_norm);
      const SmallStep step = packed_step(shape, dtype, 1, lengths(), Tokens(115), everywhere());
      ASSERT_EQ(step.packs().forward.size(), 1U);
      Rng rng(5);
      const StepTokens tokens = random_tokens(rng, shape, lengths());
      StageParameters parameters =
          make_stage_parameters(shape, dtype, step.plan.layout, {}, {}, StageId(0), 1);
      const Rope rope(shape, dtype, step.longest());
      const at::Tensor x_TH =
          slimpack::testing::random_tensor(rng, {115, shape.hidden_size()}).to(compute_type(dtype));
      const MemoryScope charged(kRank);
      const StagePlace middle{false, false};
      const StepInputs inputs(reader_of(shape, middle, parameters), step.packs(), tokens);
      StageStep stage(shape, middle, parameters, rope, step.packs(), lengths(), inputs,
                      everywhere());
      const Bytes before = live_bytes(kRank);
      const at::Tensor y_TH = stage.forward(PackId(0), x_TH.clone());
      const Bytes output = Bytes(y_TH.numel() * y_TH.element_size());
      const Bytes token = row_bytes(shape, dtype, GetParam()) + kv_bytes(shape, dtype);
      EXPECT_EQ(live_bytes(kRank) - before, token * kLayers * 115 + output)
          << to_string(dtype) << (qk_norm ? ", q and k normalised" : "");
    }
}

INSTANTIATE_TEST_SUITE_P(Recompute, EveryPolicy,
                         ::testing::ValuesIn(slimpack::testing::recomputations_of_cpu()),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(RecomputeRows, WhatIsKeptAndWhatElementwiseWorkGivesAreTheSameBits) {
  for (const Dtype dtype : {Dtype::kFp64, Dtype::kFp32, Dtype::kBf16})
    for (const bool qk_norm : {false, true}) {
      const auto step = [&](Recompute recompute) {
        return sliced_step(small_shape(kLayers, qk_norm), dtype, 1, lengths(), 6, Tokens(8),
                           RecomputeByLayer(kLayers, recompute));
      };
      const NamedTensors expected = gradients_of(step(Recompute::kElementwise));
      for (const auto& [name, gradient] : gradients_of(step(Recompute::kNothing)))
        EXPECT_TRUE(gradient.equal(expected.at(name))) << to_string(dtype) << " " << name;
    }
}

TEST(RecomputeRows, EveryLayerFollowsItsOwnPolicy) {
  // Layers of three policies on two stages.
  const RecomputeByLayer mixed{Recompute::kFull, Recompute::kMlp, Recompute::kAttention};
  const auto step = [&](RecomputeByLayer recompute) {
    return sliced_step(small_shape(kLayers), Dtype::kFp64, 2, lengths(), 6, Tokens(8),
                       std::move(recompute));
  };
  const NamedTensors expected = gradients_of(step({}));
  for (const auto& [name, gradient] : gradients_of(step(mixed)))
    EXPECT_LE(relative_error(gradient, expected.at(name)), 1e-11) << name;
}

}  // namespace
}  // namespace slimpack
