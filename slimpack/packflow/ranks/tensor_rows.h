// Tensor rows: which hidden states of a MicroPack each tensor-parallel rank of a stage holds.
//
// Norms and residuals run on a rank's own rows. Matrix products run on all rows with the rank's
// columns (sequence parallelism, arXiv:2205.05198). So the rows are gathered before a product, and
// the ranks' parts are summed and scattered after it. Of `tensor` ranks each owns every tensor-th
// row of a sequence, so forward and backward MicroPacks find the same rows on the same rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

class TensorRows {
 public:
  /// For the rows of `pack` that `replica` holds. `group`: the tensor-parallel ranks; null for a
  /// rank that is alone, where all calls cost nothing. `device`: where the rows are.
  TensorRows(const MicroPack& pack, ReplicaId replica, Collective* group,
             at::Device device = at::Device(at::kCPU));

  /// For a spread vocabulary: the rows lie with one pipeline rank, `holder` of `pipeline`, whose
  /// tensor-parallel ranks each pass theirs to the ranks in their place (Communicator::pipeline),
  /// before these gather them. Other pipeline ranks have none.
  TensorRows(const MicroPack& pack, ReplicaId replica, Collective* group, Collective& pipeline,
             std::int32_t holder, at::Device device);

  [[nodiscard]] bool alone() const { return group_ == nullptr && pipeline_ == nullptr; }

  /// Own rows → all rows, in the order of the MicroPack.
  [[nodiscard]] at::Tensor gathered(const at::Tensor& own) const;
  /// The rank's part of a sum, all rows → own rows of the sum over the ranks, added in rank order.
  [[nodiscard]] at::Tensor scattered(const at::Tensor& part) const;

 private:
  Collective* group_;
  std::optional<MemberRows> rows_;  ///< of the MicroPack, by rank; unless there is one
  Collective* pipeline_ = nullptr;
  std::optional<MemberRows> pipeline_rows_;  ///< of those in this place, by pipeline rank
};

}  // namespace slimpack
