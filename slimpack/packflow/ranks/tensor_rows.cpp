#include "slimpack/packflow/ranks/tensor_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <vector>

namespace slimpack {

MemberRows rows_by_tensor_rank(const MicroPack& pack, ReplicaId replica, std::int32_t ranks) {
  const PackShare of_replica(pack, replica);
  std::vector<at::Tensor> rows_of;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    std::vector<at::Tensor> stripes;
    std::int64_t row = 0;
    for (std::size_t s = 0; s < pack.slices.size(); ++s) {
      const Slice& slice = pack.slices[s];
      const RowShare held = of_replica.of(s), own = hidden_share(held, ranks, rank);
      const std::int64_t count = own.rows(slice).count();
      // The replica's rows before the rank's first: its tokens lie `replicas` positions apart.
      const std::int64_t first =
          row + held.before(own.first(slice)).count() - held.before(slice.begin).count();
      stripes.push_back(at::arange(first, first + count * ranks, ranks, at::kLong));
      row += held.rows(slice).count();
    }
    rows_of.push_back(at::cat(stripes));
  }
  return MemberRows(rows_of);
}

MemberRows rows_with_one(std::int64_t rows, std::int32_t members, std::int32_t holder) {
  std::vector<at::Tensor> rows_of(static_cast<std::size_t>(members), at::empty({0}, at::kLong));
  rows_of[static_cast<std::size_t>(holder)] = at::arange(rows, at::kLong);
  return MemberRows(rows_of);
}

at::Tensor TensorRows::gathered(const at::Tensor& own) const {
  const auto in = [](const GroupRows& g, const at::Tensor& rows) {
    return g.group == nullptr ? rows : g.group->rows().all_gather_rows(rows, *g.rows);
  };
  return in(tensor_, in(pipeline_, own));
}

at::Tensor TensorRows::scattered(const at::Tensor& part) const {
  const auto in = [](const GroupRows& g, const at::Tensor& rows) {
    return g.group == nullptr ? rows : g.group->rows().reduce_scatter_rows(rows, *g.rows);
  };
  return in(pipeline_, in(tensor_, part));
}

}  // namespace slimpack
