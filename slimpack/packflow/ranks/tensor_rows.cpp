#include "slimpack/packflow/ranks/tensor_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <vector>

namespace slimpack {

namespace {

/// The numbers of the rows that each of `ranks` tensor-parallel ranks holds.
std::vector<at::Tensor> rows_of_ranks(const MicroPack& pack, ReplicaId replica,
                                      std::int32_t ranks) {
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
  return rows_of;
}

}  // namespace

TensorRows::TensorRows(const MicroPack& pack, ReplicaId replica, Collective* group,
                       at::Device device)
    : group_(group) {
  if (group != nullptr) rows_.emplace(rows_of_ranks(pack, replica, group->size()), device);
}

TensorRows::TensorRows(const MicroPack& pack, ReplicaId replica, Collective* group,
                       Collective& pipeline, std::int32_t holder, at::Device device)
    : TensorRows(pack, replica, group, device) {
  pipeline_ = &pipeline;
  const std::int64_t rows = rows_ ? rows_->counts[static_cast<std::size_t>(group->index())]
                                  : PackShare(pack, replica).rows().count();
  std::vector<at::Tensor> rows_of(static_cast<std::size_t>(pipeline.size()),
                                  at::empty({0}, at::kLong));
  rows_of[static_cast<std::size_t>(holder)] = at::arange(rows, at::kLong);
  pipeline_rows_.emplace(rows_of, device);
}

at::Tensor TensorRows::gathered(const at::Tensor& own) const {
  const at::Tensor in_place =
      pipeline_ == nullptr ? own : pipeline_->rows().all_gather_rows(own, *pipeline_rows_);
  return group_ == nullptr ? in_place : group_->rows().all_gather_rows(in_place, *rows_);
}

at::Tensor TensorRows::scattered(const at::Tensor& part) const {
  const at::Tensor in_place =
      group_ == nullptr ? part : group_->rows().reduce_scatter_rows(part, *rows_);
  return pipeline_ == nullptr ? in_place
                              : pipeline_->rows().reduce_scatter_rows(in_place, *pipeline_rows_);
}

}  // namespace slimpack
