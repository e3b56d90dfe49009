// Linear maps of experts against one row at a time.
#include "slimpack/packflow/kernels/grouped_linear.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/packflow/support/tensors.h"

namespace slimpack {
namespace {

using slimpack::testing::random_parameter;
using slimpack::testing::random_tensor;
using slimpack::testing::relative_error;

/// Five experts, of which one gets nothing, with matrices of `out` × `in`.
struct Experts {
  Experts(Rng& rng, std::int64_t in, std::int64_t out)
      : choice_TK(at::tensor({3, 0, 1, 3, 0, 4, 3, 1}, at::kLong).view({4, 2})),
        pairs(expert_pairs(choice_TK, 5)),
        x_TI(random_tensor(rng, {4, in})),
        weight(random_parameter(rng, {5 * out, in})),
        width(out) {}

  [[nodiscard]] at::Tensor matrix(const at::Tensor& all, std::int64_t t, std::int64_t k) const {
    return all.narrow(0, choice_TK[t][k].item<std::int64_t>() * width, width);
  }

  at::Tensor choice_TK;
  ExpertPairs pairs;
  at::Tensor x_TI;
  Parameter weight;
  std::int64_t width;
};

TEST(ExpertPairs, AreSortedByExpertAndKeepTheOrderOfRows) {
  // Expert 0: rows 0 and 2; 1: rows 1 and 3; 2: none; 3: rows 0, 1 and 3; 4: row 2.
  const ExpertPairs pairs =
      expert_pairs(at::tensor({3, 0, 1, 3, 0, 4, 3, 1}, at::kLong).view({4, 2}), 5);
  EXPECT_TRUE(pairs.ends_E.equal(at::tensor({2, 4, 4, 7, 8}, at::kInt)));
  EXPECT_TRUE(pairs.row_P.equal(at::tensor({0, 2, 1, 3, 0, 1, 3, 2}, at::kLong)));
  EXPECT_TRUE(pairs.place_TK.equal(at::tensor({4, 0, 2, 5, 1, 7, 6, 3}, at::kLong).view({4, 2})));
}

TEST(ExpertPairs, ByExpertIsTheInverseOfByRowAlsoOfPieces) {
  Rng rng(1);
  const Experts e(rng, 3, 2);
  const at::Tensor x_PW = random_tensor(rng, {8, 3});
  const at::Tensor by_row = e.pairs.by_row(x_PW);
  EXPECT_TRUE(by_row[1].narrow(0, 3, 3).equal(x_PW[5]));  // the second pair of row 1
  EXPECT_TRUE(e.pairs.by_expert({by_row}).equal(x_PW));
  EXPECT_TRUE(e.pairs.by_expert({by_row.narrow(0, 0, 1), by_row.narrow(0, 1, 3)}).equal(x_PW));
}

class GroupedLinear
    : public ::testing::TestWithParam<std::tuple<at::ScalarType, std::int64_t, std::int64_t>> {};

// The tests' reference computes in fp64, from the same rounded numbers.
TEST_P(GroupedLinear, MultipliesEachRowWithItsExpertsMatrix) {
  const auto& [type, in, out] = GetParam();
  Rng rng(2);
  Experts e(rng, in, out);
  e.x_TI = e.x_TI.to(type);
  e.weight.value = e.weight.value.to(type);
  e.weight.gradient = e.weight.gradient.to(type == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor dy_PO = random_tensor(rng, {8, out}).to(type);
  const at::Tensor y = e.pairs.by_row(grouped_linear(e.pairs.of_rows(e.x_TI), e.weight, e.pairs));
  const at::Tensor dx = e.pairs.summed(grouped_input_gradient(dy_PO, e.weight, e.pairs));
  at::Tensor dw = e.weight.gradient.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  accumulate_grouped_gradient(dy_PO, e.pairs.of_rows(e.x_TI), e.weight, e.pairs);
  const at::Tensor dy_by_row = e.pairs.by_row(dy_PO).to(at::kDouble),
                   w = e.weight.value.to(at::kDouble);
  const double bound = type == at::kDouble ? 1e-14 : type == at::kFloat ? 1e-6 : 2e-2;
  for (std::int64_t t = 0; t < 4; ++t) {
    at::Tensor dx_sum = at::zeros({in}, at::kDouble);
    const at::Tensor x = e.x_TI[t].to(at::kDouble);
    for (std::int64_t k = 0; k < 2; ++k) {
      const at::Tensor dy = dy_by_row[t].narrow(0, k * out, out);
      EXPECT_LT(relative_error(y[t].narrow(0, k * out, out), e.matrix(w, t, k).mv(x)), bound);
      dx_sum.add_(e.matrix(w, t, k).t().mv(dy));
      e.matrix(dw, t, k).add_(at::outer(dy, x));
    }
    EXPECT_LT(relative_error(dx[t], dx_sum), bound);
  }
  EXPECT_LT(relative_error(e.weight.gradient, dw), type == at::kDouble ? 1e-14 : 1e-6);
}

// Rows of 16 bytes, which libtorch's grouped product takes, and others.
INSTANTIATE_TEST_SUITE_P(TypesAndWidths, GroupedLinear,
                         ::testing::Combine(::testing::Values(at::kDouble, at::kFloat,
                                                              at::kBFloat16),
                                            ::testing::Values(16, 5), ::testing::Values(8, 3)));

}  // namespace
}  // namespace slimpack
