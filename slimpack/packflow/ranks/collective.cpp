#include "slimpack/packflow/ranks/collective.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <bit>
#include <numeric>

namespace slimpack {

Shard replica_shard(std::int64_t size, const RankGrid& grid, ReplicaId replica) {
  const std::int32_t in_node = grid.replicas_summed_in_node();
  return Shard(size, in_node, replica.value() % in_node)
      .part(grid.replicas / in_node, replica.value() / in_node);
}

MemberRows::MemberRows(const std::vector<at::Tensor>& rows_of)
    : order_T(at::cat(rows_of)), places_T(at::empty_like(order_T)) {
  for (const at::Tensor& rows : rows_of) counts.push_back(rows.numel());
  places_T.scatter_(0, order_T, at::arange(order_T.numel(), at::kLong));
}

at::Tensor MemberRows::of(std::int32_t member) const {
  const auto begin = counts.begin();
  return order_T.narrow(0, std::accumulate(begin, begin + member, std::int64_t{0}),
                        counts[static_cast<std::size_t>(member)]);
}

void Collective::barrier_with(std::int32_t member, at::Device device) {
  const at::TensorOptions options = at::dtype(at::kFloat).device(device);
  const auto send = [&] { messages().give({at::zeros({1}, options)}, member); };
  const auto receive = [&] {
    messages().start_receive({{{1}, options}}, member);
    static_cast<void>(messages().finish_receive(member));
  };
  // The two act one after the other: two sends to each other would meet no receive on a GPU.
  if (index() < member) send();
  receive();
  if (index() > member) send();
}

Bytes bytes_of(std::span<const at::Tensor> tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return Bytes(bytes);
}

at::Tensor add_up(std::span<const at::Tensor> parts) {
  if (parts.size() == 1) return parts.front().clone();
  at::Tensor sum = parts[0].add(parts[1]);
  for (const at::Tensor& part : parts.subspan(2)) sum.add_(part);
  return sum;
}

at::Tensor add_pairwise(std::span<const at::Tensor> parts) {
  if (parts.size() == 1) return parts.front();
  if (parts.size() == 2) return parts[0].add(parts[1]);
  const std::size_t half = std::bit_floor(parts.size() - 1);
  return add_pairwise(parts.first(half)).add_(add_pairwise(parts.subspan(half)));
}

}  // namespace slimpack
