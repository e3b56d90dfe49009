// Tensor rows: which hidden states of a MicroPack each tensor-parallel rank of a stage holds.
//
// Norms and residuals run on a rank's own rows. Matrix products run on all rows with the rank's
// columns (sequence parallelism, arXiv:2205.05198). So the rows are gathered before a product, and
// the ranks' parts are summed and scattered after it. Each of `tensor` ranks owns every tensor-th
// row of a sequence, so forward and backward MicroPacks find the same rows on the same rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

/// The rows of `pack` that `replica` holds, by tensor-parallel rank.
[[nodiscard]] MemberRows rows_by_tensor_rank(const MicroPack& pack, ReplicaId replica,
                                             std::int32_t ranks);

/// Rows of which `holder` has all and the other members none.
[[nodiscard]] MemberRows rows_with_one(std::int64_t rows, std::int32_t members,
                                       std::int32_t holder);

/// A group and who holds which rows in it. References, which outlive what is made of them.
struct GroupRows {
  Collective* group = nullptr;  ///< null for a rank that is alone
  const MemberRows* rows = nullptr;
};

class TensorRows {
 public:
  /// A rank that is alone has all rows; all calls cost nothing.
  TensorRows() = default;

  /// `tensor`: the tensor-parallel ranks. `pipeline`, for a spread vocabulary: the ranks in this
  /// one's place (Communicator::pipeline), of which one has the rows and passes them to the others
  /// before the tensor-parallel ranks gather them.
  explicit TensorRows(GroupRows tensor, GroupRows pipeline = {})
      : tensor_(tensor), pipeline_(pipeline) {}

  [[nodiscard]] bool alone() const {
    return tensor_.group == nullptr && pipeline_.group == nullptr;
  }

  /// Own rows → all rows, in the order of the MicroPack.
  [[nodiscard]] at::Tensor gathered(const at::Tensor& own) const;
  /// The rank's part of a sum, all rows → own rows of the sum over the ranks, added in rank order.
  [[nodiscard]] at::Tensor scattered(const at::Tensor& part) const;

 private:
  GroupRows tensor_, pipeline_;
};

}  // namespace slimpack
