#include "slimpack/packflow/kernels/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// (a, b) → (a·cos − sign·b·sin, b·cos + sign·a·sin) on the halves of the last dimension.
void rotate_into(const at::Tensor& x, const RopeRows& rows, double sign, const at::Tensor& out) {
  const at::Tensor halves = x.unflatten(-1, {2, -1});
  at::Tensor out_halves = out.unflatten(-1, {2, -1});
  at::mul_out(out_halves, halves, rows.cos.unsqueeze(-2));
  out_halves.select(-2, 0).addcmul_(halves.select(-2, 1), rows.sin, -sign);
  out_halves.select(-2, 1).addcmul_(halves.select(-2, 0), rows.sin, sign);
}

/// All that attention takes of a projection, or its gradients.
void rotate_into(const fused::Heads& heads, const RopeRows& rows, double sign,
                 const fused::Heads& to) {
  const fused::Angles angles{rows.cos, rows.sin};
  if (fused::takes_heads(heads, angles, to)) {
    fused::rope(heads, angles, sign, to);
    return;
  }
  rotate_into(heads.q_TND, rows, sign, to.q_TND);
  rotate_into(heads.k_TGD, rows, sign, to.k_TGD);
  if (to.v_TGD.defined()) to.v_TGD.copy_(heads.v_TGD);
}

at::Tensor llama3_scaled(const RopeScaling& scaling, const at::Tensor& inverse) {
  const auto positions = static_cast<double>(scaling.original_max_positions);
  const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
  const at::Tensor wavelength = inverse.reciprocal().mul_(2 * std::numbers::pi);
  const at::Tensor is_long = wavelength.gt(positions / low);
  const at::Tensor stretched = at::where(is_long, inverse.div(scaling.factor), inverse);
  const at::Tensor smooth = wavelength.reciprocal().mul_(positions).sub_(low).div_(high - low);
  const at::Tensor smoothed =
      smooth.neg().add_(1).mul_(stretched).div_(scaling.factor).add_(smooth.mul(stretched));
  const at::Tensor is_medium = wavelength.lt(positions / high).logical_or_(is_long).logical_not_();
  return at::where(is_medium, smoothed, stretched);
}

/// The dimension whose angle turns `rotations` times over the positions of pretraining.
double yarn_dimension(const Decoder& shape, double rotations) {
  const auto positions = static_cast<double>(shape.rope_scaling.original_max_positions);
  return static_cast<double>(shape.kinds.front().head_dim) *
         std::log(positions / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(shape.rope_theta));
}

/// YaRN divides the frequencies of long wavelengths by the factor and keeps those of short ones. A
/// ramp over the dimensions leads from one to the other.
at::Tensor yarn_scaled(const Decoder& shape, const at::Tensor& periods) {
  const RopeScaling& scaling = shape.rope_scaling;
  double low = yarn_dimension(shape, scaling.beta_fast);
  double high = yarn_dimension(shape, scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  const std::int64_t head_dim = shape.kinds.front().head_dim;
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  const at::Tensor ramp =
      at::arange(head_dim / 2, periods.options()).sub_(low).div_(high - low).clamp_(0, 1);
  const at::Tensor unscaled = ramp.neg().add_(1);
  const at::Tensor scaled = unscaled.neg().add_(1);
  const at::Tensor divided = periods.mul(scaling.factor).reciprocal_();
  return divided.mul_(scaled).add_(periods.reciprocal().mul_(unscaled));
}

}  // namespace

RopeFrequencies rope_frequencies(const Decoder& shape, at::ScalarType type) {
  const RopeScaling& scaling = shape.rope_scaling;
  const std::int64_t head_dim = shape.kinds.front().head_dim;
  const auto exponent = at::arange(0, head_dim, 2, type).div_(head_dim);
  const at::Tensor periods = at::pow(shape.rope_theta, exponent);
  switch (scaling.type) {
    case RopeType::kDefault:
      break;
    case RopeType::kLinear:
      return {periods.reciprocal().div_(scaling.factor)};
    case RopeType::kLlama3:
      return {llama3_scaled(scaling, periods.reciprocal())};
    case RopeType::kYarn:
      return {yarn_scaled(shape, periods), scaling.attention_factor};
  }
  return {periods.reciprocal()};
}

RopeTables rope_tables(const RopeFrequencies& frequencies, std::int64_t positions) {
  const at::Tensor& inverse = frequencies.inverse;
  const at::Tensor angles = at::outer(at::arange(positions, inverse.options()), inverse);
  return {angles.cos().mul_(frequencies.attention_factor),
          angles.sin().mul_(frequencies.attention_factor)};
}

Rope::Rope(const Decoder& shape, Dtype dtype, Tokens positions, at::Device device) {
  const auto [cos, sin] =
      rope_tables(rope_frequencies(shape, accumulate_type(dtype)), positions.count());
  const auto table = at::dtype(compute_type(dtype)).device(device);
  cos_ = cos.to(table).unsqueeze(1);
  sin_ = sin.to(table).unsqueeze(1);
}

RopeRows Rope::rows(const PackShare& share) const {
  const auto take = [&](const at::Tensor& table) {
    std::vector<at::Tensor> parts;
    for (std::size_t i = 0; i < share.pack().slices.size(); ++i) {
      const Slice& s = share.pack().slices[i];
      const RowShare own = share.of(i);
      if (own.rows(s) == Tokens(0)) continue;
      parts.push_back(table.slice(0, own.first(s).count(), s.end.count(), own.replicas));
    }
    return parts.empty() ? table.narrow(0, 0, 0) : joined_rows(parts);
  };
  return {take(cos_), take(sin_)};
}

at::Tensor rotate(const at::Tensor& x, const RopeRows& rows) {
  at::Tensor out = at::empty(x.sizes(), x.options());
  rotate(x, rows, out);
  return out;
}

void rotate(const at::Tensor& x, const RopeRows& rows, const at::Tensor& out) {
  rotate_into(x, rows, 1.0, out);
}

bool rotation_copies_values(const at::Tensor& v_TGD) {
  return fused::are_there_for(v_TGD);
}

void rotate(const fused::Heads& heads, const RopeRows& rows, const fused::Heads& out) {
  rotate_into(heads, rows, 1.0, out);
}

void rotate_back(const fused::Heads& gradients, const RopeRows& rows, const fused::Heads& out) {
  rotate_into(gradients, rows, -1.0, out);
}

void rotate_back(const at::Tensor& dy, const RopeRows& rows, const at::Tensor& out) {
  rotate_into(dy, rows, -1.0, out);
}

}  // namespace slimpack
