#include "slimpack/packflow/tensor_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <utility>

namespace slimpack {
namespace {

at::Tensor index_tensor(std::vector<std::int64_t> values) {
  return at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kLong)
      .clone();
}

}  // namespace

TensorRows::TensorRows(const MicroPack& pack, ReplicaId replica, Collective* group)
    : group_(group) {
  if (!group) return;
  const RowShare held = row_share(pack, replica);
  std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(group->size()));
  for (const Slice& slice : pack.slices)
    for (std::int64_t n = held.before(slice.begin).count(); n < held.before(slice.end).count(); ++n)
      rows[static_cast<std::size_t>(n % group->size())].push_back(count_++);
  for (auto& of_rank : rows) rows_.push_back(index_tensor(std::move(of_rank)));
}

at::Tensor TensorRows::gathered(const at::Tensor& own) const {
  if (alone()) return own;
  const std::vector<at::Tensor> parts = group_->all_gather(own);
  std::vector<std::int64_t> sizes = own.sizes().vec();
  sizes[0] = count_;
  at::Tensor all = at::empty(sizes, own.options());
  for (std::size_t r = 0; r < parts.size(); ++r) all.index_copy_(0, rows_[r], parts[r]);
  return all;
}

at::Tensor TensorRows::scattered(const at::Tensor& part) const {
  if (alone()) return part;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& rows : rows_) parts.push_back(part.index_select(0, rows));
  const std::vector<at::Tensor> own = group_->all_to_all(std::move(parts));
  at::Tensor sum = own[0].clone();
  for (std::size_t r = 1; r < own.size(); ++r) sum.add_(own[r]);
  return sum;
}

at::Tensor TensorRows::own_of(const at::Tensor& all) const {
  return alone() ? all : all.index_select(0, rows_[static_cast<std::size_t>(group_->index())]);
}

}  // namespace slimpack
