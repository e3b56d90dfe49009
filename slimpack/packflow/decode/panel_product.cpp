#include "slimpack/packflow/decode/panel_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index.h>
#include <ATen/ops/zeros.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "slimpack/packflow/decode/amx_product.h"
#include "slimpack/packflow/decode/simd.h"

namespace slimpack {
namespace {

/// How many inputs lie side by side.
std::int64_t interleaved(at::ScalarType type) {
  return type == at::kBFloat16 ? 2 : 1;
}

/// Weights are read from front to end, and with small pages the processor waits for their
/// addresses.
void advise_large_pages(void* begin, std::size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t kPage = std::uintptr_t{1} << 21U;
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(begin) + kPage - 1) & ~(kPage - 1);
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(begin) + bytes) & ~(kPage - 1);
  if (end > first) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

}  // namespace

PanelMatrix::PanelMatrix(const at::Tensor& weight_OI, at::ScalarType type)
    : outputs_(weight_OI.size(0)), inputs_(weight_OI.size(1)) {
  const std::int64_t group = interleaved(type);
  at::Tensor padded = at::zeros({panels() * kLanes, padded_inputs()}, type);
  padded.narrow(0, 0, outputs_).narrow(1, 0, inputs_).copy_(weight_OI);
  panels_ = at::empty({panels(), padded_inputs() / group, kLanes, group}, type);
  advise_large_pages(panels_.mutable_data_ptr(), panels_.nbytes());
  panels_.copy_(padded.view({panels(), kLanes, padded_inputs() / group, group}).transpose(1, 2));
}

at::Tensor PanelMatrix::whole_OI() const {
  return panels_.transpose(1, 2)
      .reshape({panels() * kLanes, padded_inputs()})
      .narrow(0, 0, outputs_)
      .narrow(1, 0, inputs_);
}

template <class Input>
void PanelMatrix::copy_row(std::int64_t output, Sum<Input>* to) const {
  const std::int64_t group = interleaved(type());
  const Input* from = panel<Input>(output / kLanes) + output % kLanes * group;
  for (std::int64_t i = 0; i < inputs_; ++i)
    to[i] = static_cast<Sum<Input>>(from[i / group * kLanes * group + i % group]);
}
template void PanelMatrix::copy_row<double>(std::int64_t, double*) const;
template void PanelMatrix::copy_row<float>(std::int64_t, float*) const;
template void PanelMatrix::copy_row<c10::BFloat16>(std::int64_t, float*) const;

at::Tensor PanelMatrix::rows_TI(const at::Tensor& index_T) const {
  const at::Tensor by_output = panels_.transpose(1, 2);  // [panels, 16, I / g, g]
  return at::index(by_output, {index_T.div(kLanes, "floor"), index_T.remainder(kLanes)})
      .flatten(1)
      .narrow(1, 0, inputs_);
}

namespace {

/// Rows whose sums fit into registers.
constexpr std::int64_t kSimdRows = 8;

template <class T>
struct Panel {
  const T* weights;
  std::int64_t inputs;
};

/// sums[r] += Σ over inputs of x[r] · the panel's weights. One order of sums for any number of
/// rows.
template <int kRows, class T>
[[gnu::always_inline]] inline void add_rows(Panel<T> panel, RowsView<const T> x, Lanes<T>* sums) {
  Lanes<T> sum[kRows] = {};
  for (std::int64_t i = 0; i < panel.inputs; ++i) {
    const Lanes<T> weights = *reinterpret_cast<const Lanes<T>*>(panel.weights + i * kLanes);
    for (int r = 0; r < kRows; ++r) sum[r] += weights * x.row(r)[i];
  }
  for (int r = 0; r < kRows; ++r) sums[r] = sum[r];
}

/// Two inputs lie in one 32-bit lane. A bf16 number is the upper half of the fp32 number that
/// equals it.
template <int kRows>
[[gnu::always_inline]] inline void add_rows(Panel<c10::BFloat16> panel,
                                            RowsView<const c10::BFloat16> x, Lanes<float>* sums) {
  Lanes<float> sum[kRows] = {};
  for (std::int64_t i = 0; i < panel.inputs; i += 2) {
    const auto pairs = *reinterpret_cast<const Lanes<std::uint32_t>*>(panel.weights + i * kLanes);
    const auto even = reinterpret_cast<Lanes<float>>(pairs << 16U);
    const auto odd = reinterpret_cast<Lanes<float>>(pairs & 0xffff0000U);
    for (int r = 0; r < kRows; ++r) {
      sum[r] += even * static_cast<float>(x.row(r)[i]);
      sum[r] += odd * static_cast<float>(x.row(r)[i + 1]);
    }
  }
  for (int r = 0; r < kRows; ++r) sums[r] = sum[r];
}

template <class T>
[[gnu::always_inline]] inline void add_some_rows(Panel<T> panel, RowsView<const T> x,
                                                 Lanes<Sum<T>>* sums) {
  switch (x.rows) {
    case 1:
      return add_rows<1>(panel, x, sums);
    case 2:
      return add_rows<2>(panel, x, sums);
    case 3:
      return add_rows<3>(panel, x, sums);
    case 4:
      return add_rows<4>(panel, x, sums);
    case 5:
      return add_rows<5>(panel, x, sums);
    case 6:
      return add_rows<6>(panel, x, sums);
    case 7:
      return add_rows<7>(panel, x, sums);
    default:
      return add_rows<8>(panel, x, sums);
  }
}

template <class T>
struct AddPanels {
  [[gnu::always_inline]] void operator()(const PanelMatrix& w, std::int64_t begin, std::int64_t end,
                                         RowsView<const T> x, RowsView<Sum<T>> y) const {
    Lanes<Sum<T>> sums[kSimdRows];
    for (std::int64_t p = begin; p < end; ++p) {
      const Panel<T> panel{w.panel<T>(p), w.padded_inputs()};
      const std::int64_t outputs = std::min(kLanes, w.outputs() - p * kLanes);
      for (std::int64_t row = 0; row < x.rows; row += kSimdRows) {
        const auto some = x.narrow(row, std::min(kSimdRows, x.rows - row));
        add_some_rows<T>(panel, some, sums);
        for (std::int64_t r = 0; r < some.rows; ++r)
          for (std::int64_t o = 0; o < outputs; ++o) y.row(row + r)[p * kLanes + o] += sums[r][o];
      }
    }
  }
};

template <class T>
void add_panels(const PanelMatrix& w, std::int64_t begin, std::int64_t end, RowsView<const T> x,
                RowsView<Sum<T>> y) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    if (has_amx()) {
      for (std::int64_t row = 0; row < x.rows; row += kAmxRows) {
        const std::int64_t rows = std::min(kAmxRows, x.rows - row);
        amx_add_products(w.panel<T>(0), begin, end, w.padded_inputs(), w.outputs(),
                         x.narrow(row, rows), y.narrow(row, rows));
      }
      return;
    }
  }
  with_widest_simd(AddPanels<T>{}, w, begin, end, x, y);
}

/// Panels that are worth another thread: waking one takes as long as reading some 32 KiB.
std::int64_t panels_of_a_thread(const PanelMatrix& w) {
  constexpr std::int64_t kBytes = 32 * 1024;
  return std::max<std::int64_t>(1, kBytes * w.panels() / std::max<std::int64_t>(1, w.bytes()));
}

}  // namespace

template <class Input>
void multiply(const PanelMatrix& w, RowsView<const Input> x, RowsView<Sum<Input>> y, Into into) {
  at::parallel_for(0, w.panels(), panels_of_a_thread(w), [&](std::int64_t begin, std::int64_t end) {
    if (into == Into::kOverwrite) {
      const std::int64_t first = begin * kLanes, last = std::min(end * kLanes, w.outputs());
      for (std::int64_t r = 0; r < x.rows; ++r) std::fill(y.row(r) + first, y.row(r) + last, 0);
    }
    add_panels(w, begin, end, x, y);
  });
}
template void multiply(const PanelMatrix&, RowsView<const double>, RowsView<double>, Into);
template void multiply(const PanelMatrix&, RowsView<const float>, RowsView<float>, Into);
template void multiply(const PanelMatrix&, RowsView<const c10::BFloat16>, RowsView<float>, Into);

}  // namespace slimpack
