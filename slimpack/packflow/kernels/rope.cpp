#include "slimpack/packflow/kernels/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>

#include <algorithm>
#include <vector>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// (a, b) → (a·cos − sign·b·sin, b·cos + sign·a·sin) on the halves of the last dimension.
void rotate_into(const at::Tensor& x, const RopeRows& rows, double sign, at::Tensor out) {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor a = x.narrow(-1, 0, half);
  const at::Tensor b = x.narrow(-1, half, half);
  at::Tensor out_a = out.narrow(-1, 0, half);
  at::Tensor out_b = out.narrow(-1, half, half);
  at::mul_out(out_a, a, rows.cos);
  out_a.addcmul_(b, rows.sin, -sign);
  at::mul_out(out_b, b, rows.cos);
  out_b.addcmul_(a, rows.sin, sign);
}

}  // namespace

Rope::Rope(const ModelShape& shape, Dtype dtype, Tokens positions, at::Device device) {
  const auto angle_type = accumulate_type(dtype);
  const auto exponent = at::arange(0, shape.head_dim, 2, angle_type).div_(shape.head_dim);
  const auto inverse_frequency = at::pow(shape.rope_theta, exponent).reciprocal_();
  const auto angles = at::outer(at::arange(positions.count(), angle_type), inverse_frequency);
  const auto table = at::dtype(compute_type(dtype)).device(device);
  cos_ = angles.cos().to(table).unsqueeze(1);
  sin_ = angles.sin().to(table).unsqueeze(1);
}

RopeRows Rope::rows(const MicroPack& pack, const RowShare& share) const {
  const auto take = [&](const at::Tensor& table) {
    std::vector<at::Tensor> parts;
    for (const Slice& s : pack.slices)
      parts.push_back(
          table.slice(0, std::min(share.first(s), s.end).count(), s.end.count(), share.replicas));
    return joined_rows(parts);
  };
  return {take(cos_), take(sin_)};
}

at::Tensor rotate(const at::Tensor& x, const RopeRows& rows) {
  at::Tensor out = at::empty(x.sizes(), x.options());
  rotate_into(x, rows, 1.0, out);
  return out;
}

void rotate_back(const at::Tensor& dy, const RopeRows& rows, const at::Tensor& out) {
  rotate_into(dy, rows, -1.0, out);
}

}  // namespace slimpack
