#include "slimpack/packflow/kernels/grouped_linear.h"

#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "slimpack/packflow/kernels/linear.h"

namespace slimpack {
namespace {

/// Calls visit(expert, its first row, its rows) for every expert that has rows.
void for_each_expert(const at::Tensor& ends_E,
                     const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) {
  const at::Tensor host_E = ends_E.cpu();
  const auto* const ends = host_E.const_data_ptr<std::int32_t>();
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < host_E.size(0); ++e) {
    if (ends[e] > begin) visit(e, begin, ends[e] - begin);
    begin = ends[e];
  }
}

/// Whether libtorch's grouped product takes rows of both widths: it asks for strides of 16 bytes,
/// and knows no fp64.
bool takes_grouped(const at::Tensor& rows_PA, std::int64_t other_width) {
  constexpr std::int64_t kStride = 16;
  const auto bytes = static_cast<std::int64_t>(rows_PA.element_size());
  return rows_PA.scalar_type() != at::kDouble && rows_PA.size(0) > 0 &&
         rows_PA.size(1) * bytes % kStride == 0 && other_width * bytes % kStride == 0;
}

/// [P, A] by each expert's [A, B].
at::Tensor grouped_product(const at::Tensor& rows_PA, const at::Tensor& matrices_EAB,
                           const at::Tensor& ends_E) {
  const std::int64_t width = matrices_EAB.size(2);
  if (takes_grouped(rows_PA, width)) return at::_grouped_mm(rows_PA, matrices_EAB, ends_E);
  at::Tensor out_PB = at::empty({rows_PA.size(0), width}, rows_PA.options());
  for_each_expert(ends_E, [&](std::int64_t e, std::int64_t begin, std::int64_t rows) {
    at::Tensor out = out_PB.narrow(0, begin, rows);
    at::mm_out(out, rows_PA.narrow(0, begin, rows), matrices_EAB.select(0, e));
  });
  return out_PB;
}

at::Tensor matrices(const at::Tensor& all_EOI, const ExpertPairs& pairs) {
  return all_EOI.unflatten(0, {pairs.ends_E.size(0), -1});
}

}  // namespace

at::Tensor ExpertPairs::of_rows(const at::Tensor& x_TH) const {
  return x_TH.index_select(0, row_P);
}

at::Tensor ExpertPairs::by_row(const at::Tensor& x_PW) const {
  const std::int64_t pairs = place_TK.size(1);
  return x_PW.index_select(0, place_TK.flatten()).view({place_TK.size(0), pairs * x_PW.size(1)});
}

at::Tensor ExpertPairs::summed(at::Tensor x_PH) const {
  const std::int64_t width = x_PH.size(1);
  const at::Tensor by_row_TX = by_row(std::exchange(x_PH, {}));
  return by_row_TX.view({-1, place_TK.size(1), width}).sum(1);
}

at::Tensor ExpertPairs::by_expert(const std::vector<at::Tensor>& pieces_TX) const {
  const at::Tensor& first = pieces_TX.front();
  const std::int64_t width = first.size(1) / place_TK.size(1);
  at::Tensor x_PW = at::empty({row_P.size(0), width}, first.options());
  std::int64_t row = 0;
  for (const at::Tensor& piece : pieces_TX) {
    x_PW.index_copy_(0, place_TK.narrow(0, row, piece.size(0)).flatten(),
                     piece.reshape({-1, width}));
    row += piece.size(0);
  }
  return x_PW;
}

ExpertPairs expert_pairs(const at::Tensor& choice_TK, std::int64_t experts) {
  const std::int64_t count = choice_TK.numel();
  const auto numbers = choice_TK.options();
  auto [expert_P, order_P] = at::sort(choice_TK.flatten(), /*stable=*/true, 0, false);
  ExpertPairs pairs;
  pairs.ends_E = at::searchsorted(expert_P, at::arange(experts, numbers), /*out_int32=*/true,
                                  /*right=*/true);
  pairs.place_TK = at::empty({count}, numbers)
                       .index_copy_(0, order_P, at::arange(count, numbers))
                       .view(choice_TK.sizes());
  pairs.row_P = order_P.div_(choice_TK.size(1), "floor");
  return pairs;
}

at::Tensor grouped_linear(const at::Tensor& x_PI, const Parameter& weight_EOI,
                          const ExpertPairs& pairs) {
  return grouped_product(x_PI, matrices(weight_EOI.value, pairs).transpose(1, 2), pairs.ends_E);
}

at::Tensor grouped_input_gradient(const at::Tensor& dy_PO, const Parameter& weight_EOI,
                                  const ExpertPairs& pairs) {
  return grouped_product(dy_PO, matrices(weight_EOI.value, pairs), pairs.ends_E);
}

void accumulate_grouped_gradient(const at::Tensor& dy_PO, const at::Tensor& x_PI,
                                 Parameter& weight_EOI, const ExpertPairs& pairs) {
  const at::Tensor gradients_EOI = matrices(weight_EOI.gradient, pairs);
  Parameter no_bias;
  for_each_expert(pairs.ends_E, [&](std::int64_t e, std::int64_t begin, std::int64_t rows) {
    Parameter own;
    own.gradient = gradients_EOI.select(0, e);
    accumulate_linear_gradient(dy_PO.narrow(0, begin, rows), x_PI.narrow(0, begin, rows), own,
                               no_bias);
  });
}

}  // namespace slimpack
