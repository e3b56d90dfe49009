// Products with panel matrices against libtorch's in fp64, and operators of rows against their
// definitions.
#include <gtest/gtest.h>

#include <cmath>

#include "slimpack/packflow/decode/panel_product.h"
#include "slimpack/packflow/decode/row_operators.h"
#include "tests/packflow/support/tensors.h"

namespace slimpack {
namespace {

using slimpack::testing::random_tensor;
using slimpack::testing::relative_error;

template <class T>
constexpr at::ScalarType kType = c10::CppTypeToScalarType<T>::value;

/// Rows of a tensor as decoding takes them.
template <class T>
RowBuffer<T> rows_of(const at::Tensor& x_TI) {
  RowBuffer<T> buffer;
  buffer.resize(x_TI.size(0), x_TI.size(1));
  const at::Tensor values = x_TI.to(kType<T>).contiguous();
  for (std::int64_t r = 0; r < x_TI.size(0); ++r)
    std::copy_n(values.const_data_ptr<T>() + r * x_TI.size(1), x_TI.size(1), buffer.view().row(r));
  return buffer;
}

template <class T>
at::Tensor tensor_of(RowsView<T> rows, std::int64_t width) {
  return at::from_blob(rows.data, {rows.rows, width}, {rows.stride, 1}, kType<T>).clone();
}

template <class T>
class PanelProduct : public ::testing::Test {};
using Types = ::testing::Types<double, float, c10::BFloat16>;
TYPED_TEST_SUITE(PanelProduct, Types);

TYPED_TEST(PanelProduct, IsTheProductOfTheRoundedMatrices) {
  Rng rng(7);
  // One row and many, with blocks of 8, 16 and 64 that are whole and broken; sizes with and without
  // padding.
  for (const std::int64_t rows : {1, 2, 3, 5, 6, 7, 8, 15, 16, 17, 33, 63, 64, 65, 130}) {
    for (const auto& [outputs, inputs] : {std::pair{16, 32}, {37, 50}, {256, 96}, {1, 1}}) {
      const at::Tensor w = random_tensor(rng, {outputs, inputs}).to(kType<TypeParam>);
      const at::Tensor x = random_tensor(rng, {rows, inputs}).to(kType<TypeParam>);
      const at::Tensor before = random_tensor(rng, {rows, outputs}).to(kType<Sum<TypeParam>>);
      RowBuffer<TypeParam> in = rows_of<TypeParam>(x);
      RowBuffer<Sum<TypeParam>> out = rows_of<Sum<TypeParam>>(before);
      const PanelMatrix panels(w, kType<TypeParam>);
      const at::Tensor expected = at::mm(x.to(at::kDouble), w.to(at::kDouble).t());
      // The type of sums: fp64, else fp32 over up to 96 inputs.
      const double tolerance = std::is_same_v<TypeParam, double> ? 1e-14 : 2e-6;
      multiply<TypeParam>(panels, in.view(), out.view(), Into::kAdd);
      EXPECT_LT(relative_error(tensor_of(out.view(), outputs), expected + before), tolerance)
          << rows << " " << outputs << " " << inputs;
      multiply<TypeParam>(panels, in.view(), out.view());
      EXPECT_LT(relative_error(tensor_of(out.view(), outputs), expected), tolerance);
    }
  }
}

TYPED_TEST(PanelProduct, GivesARowTheSameBitsAmongOthers) {
  Rng rng(3);
  const at::Tensor x = random_tensor(rng, {70, 200});
  const PanelMatrix panels(random_tensor(rng, {48, 200}), kType<TypeParam>);
  RowBuffer<TypeParam> in = rows_of<TypeParam>(x);
  RowBuffer<Sum<TypeParam>> together, alone;
  together.resize(70, 48);
  alone.resize(1, 48);
  multiply<TypeParam>(panels, in.view(), together.view());
  for (std::int64_t r = 0; r < 70; ++r) {
    multiply<TypeParam>(panels, in.view().narrow(r, 1), alone.view());
    EXPECT_TRUE(at::equal(tensor_of(together.view().narrow(r, 1), 48), tensor_of(alone.view(), 48)))
        << r;
  }
}

TYPED_TEST(PanelProduct, KeepsTheMatrixAsItWas) {
  Rng rng(5);
  const at::Tensor w = random_tensor(rng, {37, 50}).to(kType<TypeParam>);
  const PanelMatrix panels(w, kType<TypeParam>);
  EXPECT_TRUE(at::equal(panels.whole_OI(), w));
  EXPECT_TRUE(at::equal(panels.rows_TI(at::tensor({36, 0, 17}, at::kLong)),
                        w.index_select(0, at::tensor({36, 0, 17}, at::kLong))));
  std::vector<Sum<TypeParam>> row(50);
  panels.copy_row<TypeParam>(36, row.data());
  for (std::int64_t i = 0; i < 50; ++i)
    EXPECT_EQ(row[static_cast<std::size_t>(i)], w[36][i].to(at::kDouble).item<double>());
}

template <class T>
class RowOperators : public ::testing::Test {};
TYPED_TEST_SUITE(RowOperators, Types);

/// The error that rounding results to the type allows.
template <class T>
double tolerance() {
  return std::is_same_v<T, double> ? 1e-14 : std::is_same_v<T, float> ? 1e-6 : 5e-3;
}

TYPED_TEST(RowOperators, NormDividesByTheRootMeanSquare) {
  Rng rng(11);
  for (const std::int64_t width : {2, 16, 50}) {
    const at::Tensor x = random_tensor(rng, {3, width}), weight = random_tensor(rng, {width});
    RowBuffer<Sum<TypeParam>> in = rows_of<Sum<TypeParam>>(x);
    RowBuffer<TypeParam> out;
    out.resize(3, width);
    const at::Tensor weights = weight.to(kType<Sum<TypeParam>>);
    norm_rows<TypeParam>(in.view(), width, weights.const_data_ptr<Sum<TypeParam>>(), 0.1,
                         out.view());
    const at::Tensor expected = x / (x.square().mean(1, true) + 0.1).sqrt() * weight;
    EXPECT_LT(relative_error(tensor_of(out.view(), width), expected), tolerance<TypeParam>());
  }
}

TYPED_TEST(RowOperators, GateIsSiluTimesUpFromMinusToPlusInfinity) {
  // Both ends: e^800 is no fp32 or fp64 number, silu(-800) is 0.
  const at::Tensor gate = at::cat({at::linspace(-30, 30, 33, at::kDouble),
                                   at::tensor({-800.0, -90.0, 90.0, 800.0}, at::kDouble)});
  const at::Tensor up = at::linspace(1, 2, 37, at::kDouble);
  RowBuffer<Sum<TypeParam>> in = rows_of<Sum<TypeParam>>(at::cat({gate, up}).unsqueeze(0));
  RowBuffer<TypeParam> out;
  out.resize(1, 37);
  gate_rows<TypeParam>(in.view(), 37, out.view());
  const at::Tensor actual = tensor_of(out.view(), 37)[0].to(at::kDouble);
  const at::Tensor expected = gate * at::sigmoid(gate) * up;
  for (std::int64_t i = 0; i < 37; ++i)
    EXPECT_NEAR(actual[i].item<double>(), expected[i].item<double>(),
                tolerance<TypeParam>() * std::abs(expected[i].item<double>()) + 1e-30)
        << gate[i].item<double>();
}

}  // namespace
}  // namespace slimpack
