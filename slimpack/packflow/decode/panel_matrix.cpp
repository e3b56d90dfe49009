#include "slimpack/packflow/decode/panel_matrix.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index.h>
#include <ATen/ops/zeros.h>
#include <sys/mman.h>

#include <cstdint>

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

}  // namespace slimpack
