// Rotary position embedding (Su et al. 2021), in the half-split layout of Hugging Face Llama.
#pragma once

#include <ATen/core/Tensor.h>

#include "slimpack/packflow/fused/fused.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"

namespace slimpack {

/// cos and sin of the positions of a MicroPack's rows: [T, 1, D/2], compute type.
struct RopeRows {
  at::Tensor cos;
  at::Tensor sin;

  [[nodiscard]] RopeRows narrow(std::int64_t begin, std::int64_t rows) const {
    return {cos.narrow(0, begin, rows), sin.narrow(0, begin, rows)};
  }
};

/// The frequencies that turn a position into angles.
struct RopeFrequencies {
  at::Tensor inverse;           ///< [D/2]: angle of a pair by position, in radians
  double attention_factor = 1;  ///< of cos and sin
};

/// The frequencies, computed step by step in `type` as transformers computes them. In kFloat they
/// have the same bits.
[[nodiscard]] RopeFrequencies rope_frequencies(const Decoder& shape, at::ScalarType type);

/// cos and sin of positions [0, positions): [positions, D/2], in the type of the frequencies.
struct RopeTables {
  at::Tensor cos;
  at::Tensor sin;
};
[[nodiscard]] RopeTables rope_tables(const RopeFrequencies& frequencies, std::int64_t positions);

/// Tables for positions [0, positions). fp32 angles as in Hugging Face; fp64 ones in fp64 runs.
class Rope {
 public:
  Rope(const Decoder& shape, Dtype dtype, Tokens positions,
       at::Device device = at::Device(at::kCPU));

  /// Views for a single slice, copies for several. Cost: O(T·D).
  [[nodiscard]] RopeRows rows(const PackShare& share) const;

 private:
  at::Tensor cos_;
  at::Tensor sin_;
};

/// Rotates x [T, heads, D] (any strides with a contiguous last dimension) into a new tensor.
[[nodiscard]] at::Tensor rotate(const at::Tensor& x, const RopeRows& rows);
/// Rotates x [T, heads, D] (any strides with a contiguous last dimension) and writes it to `out`.
void rotate(const at::Tensor& x, const RopeRows& rows, const at::Tensor& out);

/// The transposed map: gradient of the input from that of the output, written to `out`.
void rotate_back(const at::Tensor& dy, const RopeRows& rows, const at::Tensor& out);

/// Whether a copy of v costs nothing beside the rotation of q and k: one kernel does all of it.
[[nodiscard]] bool rotation_copies_values(const at::Tensor& v_TGD);
/// Rotates q and k, and copies v where `out` has it.
void rotate(const fused::Heads& heads, const RopeRows& rows, const fused::Heads& out);
/// Their gradients back.
void rotate_back(const fused::Heads& gradients, const RopeRows& rows, const fused::Heads& out);

}  // namespace slimpack
