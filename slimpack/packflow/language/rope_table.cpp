#include "slimpack/packflow/language/rope_table.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {

RopeTable::RopeTable(const Decoder& shape, Dtype dtype, at::Device device)
    : frequencies_(rope_frequencies(shape, accumulate_type(dtype))),
      rows_options_(at::dtype(compute_type(dtype)).device(device)),
      cos_LD_(at::empty({0, shape.kinds.front().head_dim / 2}, accumulate_type(dtype))),
      sin_LD_(cos_LD_) {}

void RopeTable::reserve(std::int64_t positions) {
  if (positions <= cos_LD_.size(0)) return;
  const std::int64_t grown = std::max(positions, cos_LD_.size(0) * 3 / 2);
  auto [cos, sin] = rope_tables(frequencies_, grown);
  cos_LD_ = std::move(cos);
  sin_LD_ = std::move(sin);
}

RopeRows RopeTable::rows(std::span<const std::int64_t> positions) const {
  at::Tensor index = at::empty({static_cast<std::int64_t>(positions.size())}, at::kLong);
  std::ranges::copy(positions, index.mutable_data_ptr<std::int64_t>());
  const auto take = [&](const at::Tensor& table) {
    return table.index_select(0, index).to(rows_options_).unsqueeze(1);
  };
  return {take(cos_LD_), take(sin_LD_)};
}

}  // namespace slimpack
