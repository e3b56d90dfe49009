// The memory model of a GPU's way against the runtime on the pretended device, whose kernels take
// no memory for themselves.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "slimpack/cost/gpu_memory.h"
#include "slimpack/cost/layer_memory.h"
#include "tests/packflow/step/memory_check.h"
#include "tests/packflow/step/step_outcome.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/packflow/support/small_runs.h"

namespace slimpack {
namespace {

using testing::grid_step;
using testing::packed_step;
using testing::Ratios;
using testing::run_once;
using testing::sliced_step;
using testing::SmallStep;
using testing::split_backwards;

Decoder fused_shape(bool qk_norm, std::int64_t vocabulary) {
  Decoder shape = testing::small_shape(2, qk_norm);
  shape.kinds[0].hidden_size = 64;
  shape.kinds[0].dense_width = 208;
  shape.kinds[0].num_heads = 4;
  shape.kinds[0].num_kv_heads = 2;
  shape.kinds[0].head_dim = shape.kinds[0].value_dim = 16;
  shape.vocab_size = vocabulary;
  return shape;
}

SequenceLengths lengths() {
  SequenceLengths all{Tokens(450), Tokens(310)};
  for (std::int64_t t = 5; t < 90; t += 7) all.emplace_back(t);
  return all;
}

void expect_peaks_of_the_model(bool fused) {
  Ratios ratios;
  for (const Recompute recompute : testing::recomputations_of_cpu())
    for (const bool qk_norm : {false, true}) {
      const RecomputeByLayer policy(2, recompute);
      const Decoder few = fused_shape(qk_norm, 64), many = fused_shape(qk_norm, 4096);
      ASSERT_TRUE(fused_kernels_take(few.kinds[0]));
      std::vector<SmallStep> steps{
          sliced_step(few, Dtype::kBf16, 1, lengths(), 6, Tokens(64), policy),
          packed_step(few, Dtype::kBf16, 1, lengths(), Tokens(500), policy),
          packed_step(many, Dtype::kBf16, 1, lengths(), Tokens(500), policy)};
      if (qk_norm) split_backwards(steps.front(), 0);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        SmallStep& step = steps[i];
        if (!ratios.sample.next()) continue;
        step.cost.device.gpu = GpuMemory{1, Bytes(0), Bytes(0), Bytes(0), 2, fused};
        testing::expect_ratios(
            grid_step(step).predict(Counted::kTensors),
            run_once(step, testing::kPretended).result.timeline.peak_activation, 1,
            fmt::format("{}, step {}, q/k norms: {}", to_string(recompute), i, qk_norm),
            Bytes(1 << 19), {0.98, 1.02}, ratios);
      }
    }
  ratios.print(fused ? "fused kernels" : "libtorch's operators");
}

TEST(FusedMemory, PeaksOnTheDeviceAreThoseOfTheMemoryModel) {
  expect_peaks_of_the_model(true);
}

TEST(FusedMemory, PeaksOfABuildWithoutFusedKernelsAreThoseOfTheMemoryModel) {
  const testing::WithoutFusedKernels without;
  expect_peaks_of_the_model(false);
}

}  // namespace
}  // namespace slimpack
