#include "slimpack/packflow/layer/weight_gradients.h"

#include <gtest/gtest.h>

#include "slimpack/packflow/device/memory_tracker.h"
#include "tests/packflow/support/tensors.h"

namespace slimpack {
namespace {

using slimpack::testing::random_parameter;
using slimpack::testing::random_tensor;
using slimpack::testing::relative_error;
using When = WeightGradients::When;

constexpr std::int32_t kRank = 51;  // one that no engine of these tests uses

/// Rows of a rank that has no tensor-parallel neighbour.
TensorRows alone() {
  return {};
}

/// A linear map from three to two on five rows.
struct Map {
  explicit Map(Rng& rng)
      : dy_TO(random_tensor(rng, {5, 2})),
        x_TI(random_tensor(rng, {5, 3})),
        norm_I(random_parameter(rng, {3})),
        weight_OI(random_parameter(rng, {2, 3})),
        bias_O(random_parameter(rng, {2})) {}

  [[nodiscard]] LinearOperands operands() { return {dy_TO, x_TI, nullptr, &weight_OI, &bias_O}; }
  [[nodiscard]] LinearOperands normed() { return {dy_TO, x_TI, &norm_I, &weight_OI, &bias_O}; }

  at::Tensor dy_TO, x_TI;
  Parameter norm_I, weight_OI, bias_O;
};

TEST(WeightGradients, AreTheProductAndTheSumOfTheDefinition) {
  Rng rng(1);
  Map map(rng);
  WeightGradients now(When::kNow);
  now.add(map.operands(), alone(), map.dy_TO);
  for (std::int64_t o = 0; o < 2; ++o) {
    for (std::int64_t i = 0; i < 3; ++i) {
      double sum = 0;
      for (std::int64_t t = 0; t < 5; ++t)
        sum += map.dy_TO[t][o].item<double>() * map.x_TI[t][i].item<double>();
      EXPECT_NEAR(map.weight_OI.gradient[o][i].item<double>(), sum, 1e-14);
    }
    double sum = 0;
    for (std::int64_t t = 0; t < 5; ++t) sum += map.dy_TO[t][o].item<double>();
    EXPECT_NEAR(map.bias_O.gradient[o].item<double>(), sum, 1e-14);
  }
  EXPECT_TRUE(now.empty());
}

TEST(WeightGradients, OfANormedInputAreThoseOfItsProductWithTheNormsWeight) {
  Rng rng(2);
  Map map(rng);
  Rng same(2);
  Map plain(same);
  plain.x_TI = plain.x_TI * map.norm_I.value;
  WeightGradients now(When::kNow);
  now.add(map.normed(), alone());
  now.add(plain.operands(), alone(), plain.dy_TO);
  EXPECT_LT(relative_error(map.weight_OI.gradient, plain.weight_OI.gradient), 1e-15);
  // The product may be there already.
  Rng again(2);
  Map multiplied(again);
  LinearOperands operands = multiplied.normed();
  operands.x_TI = plain.x_TI;
  operands.multiplied = true;
  now.add(operands, alone());
  EXPECT_TRUE(multiplied.weight_OI.gradient.equal(map.weight_OI.gradient));
}

TEST(WeightGradients, ThatArePutOffAreTheSameBitsAndChangeNothingBefore) {
  Rng rng(3);
  Map map(rng);
  Rng same(3);
  Map later_map(same);
  WeightGradients now(When::kNow), later(When::kLater);
  for (const bool normed : {false, true}) {
    now.add(normed ? map.normed() : map.operands(), alone(), map.dy_TO);
    later.add(normed ? later_map.normed() : later_map.operands(), alone(), later_map.dy_TO);
  }
  EXPECT_FALSE(later.empty());
  EXPECT_TRUE(later_map.weight_OI.gradient.eq(0).all().item<bool>());
  later.run(alone());
  EXPECT_TRUE(later.empty());
  EXPECT_TRUE(later_map.weight_OI.gradient.equal(map.weight_OI.gradient));
  EXPECT_TRUE(later_map.bias_O.gradient.equal(map.bias_O.gradient));
  later.run(alone());  // nothing is left to add
  EXPECT_TRUE(later_map.weight_OI.gradient.equal(map.weight_OI.gradient));
}

TEST(WeightGradients, KeepNothingAliveButTheOperandsUntilTheyRun) {
  // Views of 5 of 100 rows: 5 · (2 + 3) numbers of 8 bytes are copied, and the rows can go.
  Rng rng(4);
  Map map(rng);
  const Bytes before = live_bytes(kRank);
  const auto held = [&] { return (live_bytes(kRank) - before).count(); };
  const MemoryScope charged(kRank);
  at::Tensor dy_TO = random_tensor(rng, {100, 2}), x_TI = random_tensor(rng, {100, 3});
  WeightGradients later(When::kLater);
  later.add({dy_TO.narrow(0, 20, 5), x_TI.narrow(0, 95, 5), nullptr, &map.weight_OI, &map.bias_O},
            alone(), dy_TO);
  dy_TO.reset();
  x_TI.reset();
  EXPECT_EQ(held(), 5 * 5 * 8);
  // A tensor that is alone in its storage is kept as it is, and so is a view of all of it.
  at::Tensor whole_TO = random_tensor(rng, {5, 2}), whole_TI = random_tensor(rng, {5, 3});
  const std::int64_t both = held();
  later.add({whole_TO, whole_TI.narrow(0, 0, 5), nullptr, &map.weight_OI, &map.bias_O}, alone(),
            whole_TO);
  EXPECT_EQ(held(), both);
  whole_TO.reset();
  whole_TI.reset();
  EXPECT_EQ(held(), both);
  later.run(alone());
  EXPECT_EQ(held(), 0);
}

TEST(WeightGradients, AreFreedMapByMap) {
  // Two maps of 10,000 numbers on each side. When the first has run, its operands are gone: a copy
  // that the second makes for its norm, as large as one of them, does not raise the peak.
  Rng rng(5);
  Parameter norm_I = random_parameter(rng, {100}), weight_OI = random_parameter(rng, {100, 100});
  Parameter bias_O;
  const MemoryScope charged(kRank);
  WeightGradients later(When::kLater);
  for (const Parameter* norm :
       {static_cast<const Parameter*>(nullptr), static_cast<const Parameter*>(&norm_I)})
    later.add(
        {random_tensor(rng, {100, 100}), random_tensor(rng, {100, 100}), norm, &weight_OI, &bias_O},
        alone());
  const Bytes held = live_bytes(kRank);
  reset_peak(kRank);
  later.run(alone());
  EXPECT_EQ(peak_bytes(kRank), held);
}

}  // namespace
}  // namespace slimpack
