// Steps whose layers offload rows, on the pretended device: what they give, and the memory that
// they take there and on the host.
#include <gtest/gtest.h>

#include <algorithm>

#include "slimpack/packflow/profile/profile.h"
#include "slimpack/plan/regroup.h"
#include "tests/packflow/step/memory_check.h"
#include "tests/packflow/step/step_outcome.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/packflow/support/random_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/expect_holds.h"
#include "tests/support/token_bytes.h"

namespace slimpack {
namespace {

using testing::row_bytes;

using slimpack::testing::grid_step;
using slimpack::testing::kPretended;
using slimpack::testing::packed_step;
using slimpack::testing::pinned_bytes;
using slimpack::testing::random_run;
using slimpack::testing::RandomRun;
using slimpack::testing::Ratios;
using slimpack::testing::run_once;
using slimpack::testing::same_gradients;
using slimpack::testing::sliced_step;
using slimpack::testing::small_shape;
using slimpack::testing::SmallStep;
using slimpack::testing::split_backwards;
using slimpack::testing::StepOutcome;
using R = Recompute;

/// Gives the run's layers so many experts, of which a token takes `each`. Runs without
/// tensor-parallel ranks: experts are not divided among these.
void use_experts(RandomRun& run, std::int64_t experts, std::int64_t each) {
  LayerShape& layer = run.shape.kinds[0];
  run.tensor = 1;
  run.shape.family =
      layer.qk_norm == QkNorm::kNone ? ModelFamily::kMixtral : ModelFamily::kQwen3Moe;
  layer.qkv_bias = layer.output_bias = layer.mlp_bias = false;
  layer.dense_width = 0;
  layer.experts = experts;
  layer.experts_per_token = each;
  layer.expert_width = 16;
}

void expect_the_bits_of_rows_that_stay(bool experts, double share) {
  testing::expect_holds(
      [&](std::uint64_t seed) {
        Rng rng(seed);
        RandomRun kept = random_run(rng);
        // Rows that stay come in pieces, fetched ones in one, and the device's kernels are a CPU's
        // on copies end to end: 16 numbers for each of up to four ranks leave no remainder, which
        // would be rounded otherwise.
        kept.shape.kinds[0].dense_width = 64;
        if (experts) use_experts(kept, 5, 2);
        kept.plan.recompute.resize(static_cast<std::size_t>(kept.shape.num_layers()),
                                   R::kElementwise);
        RandomRun offloading = kept;
        for (std::size_t l = 0; l < kept.plan.recompute.size(); ++l) {
          if (rng.below(3) == 0) continue;
          kept.plan.recompute[l] = R::kElementwise;
          offloading.plan.recompute[l] = R::kOffload;
        }
        const StepOutcome cpu = run_once(kept), there = run_once(kept, Dtype::kFp64, kPretended),
                          offloaded = run_once(offloading, Dtype::kFp64, kPretended);
        RC_ASSERT(offloaded.result.loss == there.result.loss);
        for (const auto& [name, gradient] : offloaded.gradients)
          RC_ASSERT(gradient.equal(there.gradients.at(name)));
        RC_ASSERT(same_gradients(offloaded.gradients, cpu.gradients, 1e-12));
      },
      share);
}

TEST(Offload, OnAnyGridGivesTheBitsOfRowsThatStay) {
  expect_the_bits_of_rows_that_stay(false, 0.15);
}

TEST(Offload, OfExpertsGivesTheBitsOfRowsThatStay) {
  expect_the_bits_of_rows_that_stay(true, 0.1);
}

constexpr std::int64_t kLayers = 4;

const SequenceLengths& lengths() {
  static const SequenceLengths all{Tokens(200), Tokens(1), Tokens(90), Tokens(33), Tokens(70)};
  return all;
}

/// Rows and what the MLP makes of them are nearly all that a step holds, so that it does not matter
/// that the device's attention is another one than the memory model's.
Decoder wide_mlp(bool qk_norm) {
  Decoder shape = small_shape(kLayers, qk_norm);
  shape.kinds[0].dense_width = 1536;
  return shape;
}

/// A token takes two of four experts, which are together half as wide.
Decoder wide_experts(bool qk_norm) {
  Decoder shape = wide_mlp(qk_norm);
  LayerShape& layer = shape.kinds[0];
  layer.dense_width = 0;
  layer.experts = 4;
  layer.experts_per_token = 2;
  layer.expert_width = 384;
  return shape;
}

std::vector<RecomputeByLayer> policies() {
  std::vector<RecomputeByLayer> all{
      {R::kOffload, R::kOffload, R::kOffload, R::kOffload},
      {R::kOffload, R::kOffload, R::kElementwise, R::kElementwise},
      {R::kElementwise, R::kElementwise, R::kElementwise, R::kOffload},
      {R::kOffload, R::kNothing, R::kOffload, R::kNothing},
      {R::kFull, R::kOffload, R::kOffload, R::kMlp}};
  Rng rng(3);
  for (int i = 0; i < 3; ++i) {
    RecomputeByLayer& mixed = all.emplace_back();
    while (std::ssize(mixed) < kLayers)
      mixed.push_back(all_recomputations()[rng.below(kRecomputations)]);
  }
  return all;
}

void expect_peaks_of_the_model(Decoder (*wide)(bool qk_norm)) {
  Ratios ratios;
  for (const RecomputeByLayer& recompute : policies())
    for (const bool qk_norm : {false, true}) {
      const Decoder shape = wide(qk_norm);
      std::vector<SmallStep> steps{
          sliced_step(shape, Dtype::kFp64, 1, lengths(), 6, Tokens(8), recompute),
          sliced_step(shape, Dtype::kFp32, 1, lengths(), 3, Tokens(32), recompute),
          packed_step(shape, Dtype::kFp64, 1, lengths(), Tokens(200), recompute)};
      steps.push_back(steps.front());
      split_backwards(steps.back(), 0);
      for (const SmallStep& step : steps)
        if (ratios.sample.next())
          testing::expect_ratios(grid_step(step).predict(),
                                 run_once(step, kPretended).result.timeline.peak_activation, 1,
                                 describe(recompute), Bytes(1 << 20), {0.98, 1.02}, ratios);
    }
  ratios.print("offloaded rows");
}

TEST(Offload, PeaksOnTheDeviceAreThoseOfTheMemoryModel) {
  expect_peaks_of_the_model(wide_mlp);
}

TEST(Offload, PeaksOfExpertsOnTheDeviceAreThoseOfTheMemoryModel) {
  expect_peaks_of_the_model(wide_experts);
}

/// Tokens whose rows wait for their backward, after each action of the only stage.
std::vector<std::int64_t> waiting_tokens(const SmallStep& step) {
  const auto segments = regroup(step.packs());
  std::vector<std::size_t> last_use(step.packs().forward.size());
  for (std::size_t b = 0; b < segments.size(); ++b)
    for (const RowSegment& segment : segments[b]) last_use[segment.forward.index()] = b;
  std::vector<std::int64_t> after;
  std::int64_t waiting = 0;
  for (const Action& action : step.schedule.ranks.front()) {
    if (action.pass == Pass::kForward)
      waiting += step.packs().forward[action.pack.index()].tokens().count();
    else
      for (std::size_t f = 0; f < last_use.size(); ++f)
        if (last_use[f] == action.pack.index()) waiting -= step.packs().forward[f].tokens().count();
    after.push_back(waiting);
  }
  return after;
}

TEST(Offload, BetweenActionsRowsAreOnTheHostAndNothingOfThemOnTheDevice) {
  const auto step = [](Recompute first_two) {
    return sliced_step(small_shape(kLayers), Dtype::kBf16, 1, lengths(), 6, Tokens(8),
                       {first_two, first_two, R::kMlp, R::kElementwise});
  };
  const SmallStep offloading = step(R::kOffload);
  const std::int64_t before = pinned_bytes().live;
  testing::reset_pinned_peak();
  const StepOutcome kept = run_once(step(R::kElementwise), kPretended),
                    offloaded = run_once(offloading, kPretended);
  const auto& with = kept.result.timeline.memory;
  const auto& without = offloaded.result.timeline.memory;
  const std::vector<std::int64_t> waiting = waiting_tokens(offloading);
  ASSERT_EQ(with.size(), waiting.size());
  ASSERT_EQ(without.size(), waiting.size());
  const Bytes row = row_bytes(offloading.cost.shape, Dtype::kBf16);
  for (std::size_t i = 0; i < waiting.size(); ++i)
    EXPECT_EQ(with[i].bytes - without[i].bytes, row * 2 * waiting[i]) << i;
  if (at::hasCUDA()) return;  // pinned memory is that of the GPU's driver
  EXPECT_EQ(pinned_bytes().live, before);
  // Beside the rows token ids are on their way: eight bytes each.
  const std::int64_t rows = (row * 2 * *std::ranges::max_element(waiting)).count();
  EXPECT_GE(pinned_bytes().peak - before, rows);
  EXPECT_LE(pinned_bytes().peak - before, rows + 8 * total_tokens(lengths()).count());
}

TEST(Offload, OfACpuIsRefusedBeforeAnythingRuns) {
  const SmallStep step = sliced_step(small_shape(kLayers), Dtype::kFp32, 1, lengths(), 6, Tokens(8),
                                     {R::kMlp, R::kFull, R::kOffload, R::kOffload});
  expect_invalid_input([&] { (void)run_once(step); },
                       {"rows of layer 2", "a CPU", "train.device = \"cuda\""});
}

TEST(Offload, TakesTheTimeThatAProfileMeasures) {
  ProfileOptions options;
  options.shape = small_shape(2);
  options.context = Tokens(64);
  options.budget = from_seconds(0.3);
  EXPECT_EQ(profile_costs(options).host.per_byte, 0);
  options.device = kPretended;
  EXPECT_GT(profile_costs(options).host.per_byte, 0);
}

}  // namespace
}  // namespace slimpack
