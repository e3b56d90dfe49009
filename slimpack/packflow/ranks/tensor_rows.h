// Tensor rows: how the hidden states of a MicroPack lie on the tensor-parallel ranks of a stage.
//
// Norms and residuals run on a rank's own rows, matrix products on all rows with the rank's columns
// (sequence parallelism, arXiv:2205.05198): before a product the rows are gathered, after it the
// ranks' parts are summed and scattered. A rank owns every tensor-th row of a sequence, so forward
// and backward MicroPacks find the same rows on the same rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

class TensorRows {
 public:
  /// Of the rows that `replica` holds of `pack`. `group`: the tensor-parallel ranks, or null for a
  /// rank that is alone, on which nothing below costs anything. `device`: of the rows.
  TensorRows(const MicroPack& pack, ReplicaId replica, Collective* group,
             at::Device device = at::Device(at::kCPU));

  [[nodiscard]] bool alone() const { return group_ == nullptr; }

  /// Own rows → all rows, in the order of the MicroPack.
  [[nodiscard]] at::Tensor gathered(const at::Tensor& own) const;
  /// A part of all rows → own rows of the sum over the ranks, added in rank order.
  [[nodiscard]] at::Tensor scattered(const at::Tensor& part) const;

 private:
  Collective* group_;
  std::vector<at::Tensor> rows_;  ///< by rank: which of the MicroPack's rows are its own
};

}  // namespace slimpack
