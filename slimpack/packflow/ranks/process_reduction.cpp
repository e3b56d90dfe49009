#include "slimpack/packflow/ranks/process_reduction.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/ranks/process_transfers.h"

namespace slimpack {
namespace {

using Tensors = std::vector<at::Tensor>;
using Transfer = ProcessPeers::Transfer;
using Kind = Transfer::Kind;

/// Every member sums its shard, then gives it to all others.
void all_reduce_by_shards(ShardReduction& shards, at::Tensor& tensor) {
  at::Tensor flat_N = tensor.contiguous().view(-1);
  shards.start_reduce_scatter(flat_N);
  shards.finish_reduce_scatter();
  shards.all_gather_shards(flat_N);
  tensor.copy_(flat_N.view_as(tensor));
}

class MessageReduction final : public ShardReduction {
 public:
  explicit MessageReduction(ProcessPeers& peers)
      : peers_(peers), mesh_(peers.group().size, peers.index()) {
    for (std::int32_t m = mesh_.own.begin; m < mesh_.own.end; ++m) {
      summed_by_.push_back(Mesh(peers.group().size, m).targets);
      summed_by_.back().insert(summed_by_.back().begin(), m);
    }
  }

  void start_reduce_scatter(at::Tensor flat_N) override {
    Reduction reduction;
    const at::Tensor own_K = summed_by(peers_.index(), flat_N);
    for (std::int32_t m = mesh_.own.begin; m < mesh_.own.end; ++m)
      reduction.parts_K.push_back(m == peers_.index() ? own_K : at::empty_like(own_K));
    reduction.messages = begin_exchange(
        peers_, mesh_.own, [&](std::int32_t to) { return summed_by(to, flat_N); },
        [&](std::int32_t from) { return reduction.parts_K[place(from)]; });
    reduction.flat_N = std::move(flat_N);
    reducing_.push_back(std::move(reduction));
  }

  void await_reduce_scatter() override {
    SLIMPACK_CHECK(!reducing_.empty());
    wait_for(reducing_.front().messages);
  }

  void finish_reduce_scatter() override {
    await_reduce_scatter();
    const Reduction reduction = std::move(reducing_.front());
    reducing_.pop_front();
    at::Tensor sum_K = add_pairwise(reduction.parts_K);
    if (!mesh_.received.empty()) sum_K = sum_of_blocks(sum_K, reduction.flat_N);
    shard(reduction.flat_N, peers_.index()).of(reduction.flat_N).copy_(sum_K);
  }

  void all_gather_shards(at::Tensor& flat_N) override {
    std::vector<std::int64_t> sizes;
    for (std::int32_t m = 0; m < peers_.group().size; ++m) sizes.push_back(shard(flat_N, m).size());
    all_gather_in_place(peers_, flat_N, sizes);
  }

  void all_reduce(at::Tensor& tensor) override { all_reduce_by_shards(*this, tensor); }

 private:
  /// An unfinished reduction.
  struct Reduction {
    at::Tensor flat_N;
    Tensors parts_K;  ///< of what this member sums in its block, by member of the block
    Travelling messages;
  };

  /// The shards that a member of the own block sums: its own one, then those of its targets.
  [[nodiscard]] at::Tensor summed_by(std::int32_t member, const at::Tensor& flat_N) const {
    Tensors shards;
    for (const std::int32_t m : summed_by_[place(member)])
      shards.push_back(shard(flat_N, m).of(flat_N));
    return shards.size() == 1 ? shards.front() : at::cat(shards);
  }

  /// Gives the targets what the own block has for them. The sum of what all blocks have for this
  /// member.
  [[nodiscard]] at::Tensor sum_of_blocks(const at::Tensor& sum_K, const at::Tensor& flat_N) {
    std::vector<std::int64_t> sizes;
    for (const std::int32_t m : summed_by_[place(peers_.index())])
      sizes.push_back(shard(flat_N, m).size());
    const Tensors sums = sum_K.split_with_sizes(sizes);
    std::vector<Transfer> transfers;
    Tensors parts_S;  // by block
    auto source = mesh_.received.begin();
    for (const Mesh::Block& block : Mesh::blocks(peers_.group().size)) {
      const bool own = block == mesh_.own;
      parts_S.push_back(own ? sums.front() : at::empty_like(sums.front()));
      if (!own) transfers.push_back({Kind::kReceive, parts_S.back(), source++->from});
    }
    for (std::size_t t = 0; t < mesh_.targets.size(); ++t)
      transfers.push_back({Kind::kSend, sums[t + 1], mesh_.targets[t]});
    Travelling messages = peers_.begin(std::move(transfers));
    wait_for(messages);
    return add_pairwise(parts_S);
  }

  /// The place of a member in the own block.
  [[nodiscard]] std::size_t place(std::int32_t member) const {
    return static_cast<std::size_t>(member - mesh_.own.begin);
  }

  [[nodiscard]] Shard shard(const at::Tensor& flat_N, std::int32_t member) const {
    return {flat_N.numel(), peers_.group().size, member};
  }

  ProcessPeers& peers_;
  Mesh mesh_;
  std::vector<std::vector<std::int32_t>> summed_by_;  ///< whose shards, by member of the own block
  std::deque<Reduction> reducing_;
};

class BackendReduction final : public ShardReduction {
 public:
  explicit BackendReduction(ProcessPeers& peers) : peers_(peers) {}

  void start_reduce_scatter(at::Tensor flat_N) override {
    at::Tensor rows_MS = even_rows(flat_N);
    reducing_.push_back({std::move(flat_N), peers_.reduce_scatter(std::move(rows_MS))});
  }
  void await_reduce_scatter() override {
    SLIMPACK_CHECK(!reducing_.empty());
    reducing_.front().message.wait();
  }
  void finish_reduce_scatter() override {
    await_reduce_scatter();
    const Reduction reduction = std::move(reducing_.front());
    reducing_.pop_front();
    put_back(reduction.message.tensor(), reduction.flat_N, peers_.index());
  }

  void all_gather_shards(at::Tensor& flat_N) override {
    ProcessPeers::Message message = peers_.all_gather(even_rows(flat_N));
    message.wait();
    for (std::int32_t m = 0; m < size(); ++m) put_back(message.tensor(), flat_N, m);
  }

  void all_reduce(at::Tensor& tensor) override {
    const at::Tensor whole = tensor.contiguous();
    peers_.all_reduce(whole).wait();
    if (!whole.is_alias_of(tensor)) tensor.copy_(whole);
  }

 private:
  struct Reduction {
    at::Tensor flat_N;
    ProcessPeers::Message message;
  };

  [[nodiscard]] std::int32_t size() const { return peers_.group().size; }
  /// The members' shards as rows of one length: the tensor itself where it is shared evenly, else a
  /// copy with zeros behind shorter shards.
  [[nodiscard]] at::Tensor even_rows(const at::Tensor& flat_N) const {
    const std::int64_t elements = flat_N.numel();
    if (elements % size() == 0) return flat_N.view({size(), elements / size()});
    at::Tensor rows_MS = at::zeros({size(), elements / size() + 1}, flat_N.options());
    for (std::int32_t m = 0; m < size(); ++m) {
      const Shard shard(elements, size(), m);
      rows_MS.select(0, m).narrow(0, 0, shard.size()).copy_(shard.of(flat_N));
    }
    return rows_MS;
  }
  /// A member's shard, from such a copy.
  void put_back(const at::Tensor& rows_MS, const at::Tensor& flat_N, std::int32_t member) const {
    if (rows_MS.is_alias_of(flat_N)) return;
    const Shard shard(flat_N.numel(), size(), member);
    shard.of(flat_N).copy_(rows_MS.select(0, member).narrow(0, 0, shard.size()));
  }

  ProcessPeers& peers_;
  std::deque<Reduction> reducing_;
};

class NodeFirstReduction final : public ShardReduction {
 public:
  NodeFirstReduction(std::unique_ptr<ShardReduction> in_node,
                     std::unique_ptr<ShardReduction> across, std::int32_t members,
                     std::int32_t index)
      : in_node_(std::move(in_node)), across_(std::move(across)), own_(index), members_(members) {}

  /// All members post in one order, whatever has arrived. A device that synchronises waits for
  /// everything that its rank has posted, so members that differ in the order would wait for each
  /// other.
  void start_reduce_scatter(at::Tensor flat_N) override {
    leave_node();
    part_K_ = part(flat_N);
    in_node_->start_reduce_scatter(std::move(flat_N));
  }

  void await_reduce_scatter() override {
    leave_node();
    across_->await_reduce_scatter();
  }

  void finish_reduce_scatter() override {
    await_reduce_scatter();
    across_->finish_reduce_scatter();
  }

  void all_gather_shards(at::Tensor& flat_N) override {
    at::Tensor part_K = part(flat_N);
    across_->all_gather_shards(part_K);
    in_node_->all_gather_shards(flat_N);
  }

  void all_reduce(at::Tensor& tensor) override { all_reduce_by_shards(*this, tensor); }

 private:
  /// The part that this member sums over its node.
  [[nodiscard]] at::Tensor part(const at::Tensor& flat_N) const {
    return Shard(flat_N.numel(), members_, own_).of(flat_N);
  }

  void leave_node() {
    if (!part_K_) return;
    in_node_->finish_reduce_scatter();
    across_->start_reduce_scatter(*std::exchange(part_K_, std::nullopt));
  }

  std::unique_ptr<ShardReduction> in_node_, across_;
  std::int32_t own_, members_;        ///< of the node
  std::optional<at::Tensor> part_K_;  ///< the one that the node still sums
};

/// Uses each of the collectives once: NCCL connects the members for one when it is first called.
void connect_backend(ProcessPeers& peers, at::Device device) {
  // Checkpoints gather shards by messages.
  connect_members(peers, device);
  BackendReduction reduction(peers);
  at::Tensor number_of_each = at::zeros({peers.group().size}, at::dtype(at::kFloat).device(device));
  reduction.start_reduce_scatter(number_of_each);
  reduction.finish_reduce_scatter();
  reduction.all_gather_shards(number_of_each);
  reduction.all_reduce(number_of_each);
}

}  // namespace

std::unique_ptr<ShardReduction> message_reduction(ProcessPeers& peers) {
  return std::make_unique<MessageReduction>(peers);
}

std::unique_ptr<ShardReduction> backend_reduction(ProcessPeers& peers) {
  return std::make_unique<BackendReduction>(peers);
}

GradientSums gradient_sums(bool same_bits) {
  return same_bits ? GradientSums{message_reduction, connect_members}
                   : GradientSums{backend_reduction, connect_backend};
}

std::unique_ptr<ShardReduction> node_first_reduction(std::unique_ptr<ShardReduction> in_node,
                                                     std::unique_ptr<ShardReduction> across,
                                                     std::int32_t members, std::int32_t index) {
  return std::make_unique<NodeFirstReduction>(std::move(in_node), std::move(across), members,
                                              index);
}

}  // namespace slimpack
