#include "slimpack/packflow/ranks/tensor_rows.h"

#include <ATen/ops/from_blob.h>

#include <utility>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

at::Tensor index_tensor(std::vector<std::int64_t> values, at::Device device) {
  const auto size = static_cast<std::int64_t>(values.size());
  return put_on(at::from_blob(values.data(), {size}, at::kLong).clone(), device);
}

}  // namespace

TensorRows::TensorRows(const MicroPack& pack, ReplicaId replica, Collective* group,
                       at::Device device)
    : group_(group) {
  if (!group) return;
  const RowShare held = row_share(pack, replica);
  std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(group->size()));
  std::int64_t row = 0;
  for (const Slice& slice : pack.slices)
    for (std::int64_t n = held.before(slice.begin).count(); n < held.before(slice.end).count(); ++n)
      rows[static_cast<std::size_t>(n % group->size())].push_back(row++);
  for (auto& of_rank : rows) rows_.push_back(index_tensor(std::move(of_rank), device));
}

at::Tensor TensorRows::gathered(const at::Tensor& own) const {
  return alone() ? own : group_->rows().all_gather_rows(own, rows_);
}

at::Tensor TensorRows::scattered(const at::Tensor& part) const {
  return alone() ? part : group_->rows().reduce_scatter_rows(part, rows_);
}

}  // namespace slimpack
