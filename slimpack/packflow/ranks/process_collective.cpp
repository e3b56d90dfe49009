#include "slimpack/packflow/ranks/process_collective.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/ranks/mesh.h"

namespace slimpack {
namespace {

using Tensors = std::vector<at::Tensor>;
using Messages = std::vector<ProcessPeers::Message>;
using Transfer = ProcessPeers::Transfer;
using Kind = Transfer::Kind;

void wait_for(Messages& messages) {
  for (ProcessPeers::Message& message : messages) message.wait();
}

/// An uninitialised tensor like `tensor`, with another number of rows.
at::Tensor empty_rows(const at::Tensor& tensor, std::int64_t rows) {
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes[0] = rows;
  return at::empty(sizes, tensor.options());
}

/// Begins to send given(member) to every other one of `members`, and to receive taken(member) from
/// it.
template <class Given, class Taken>
[[nodiscard]] Messages begin_exchange(ProcessPeers& peers, const Mesh::Block& members,
                                      const Given& given, const Taken& taken) {
  std::vector<Transfer> transfers;
  for (std::int32_t m = members.begin; m < members.end; ++m) {
    if (m == peers.index()) continue;
    transfers.push_back({Kind::kReceive, taken(m), m});
    transfers.push_back({Kind::kSend, given(m), m});
  }
  return peers.begin(std::move(transfers));
}

/// As above, with all members of the group.
template <class Given, class Taken>
[[nodiscard]] Messages begin_exchange(ProcessPeers& peers, const Given& given, const Taken& taken) {
  return begin_exchange(peers, {0, peers.group().size}, given, taken);
}

std::int64_t sum_of(const std::vector<std::int64_t>& sizes, const Mesh::Block& block) {
  return std::accumulate(sizes.begin() + block.begin, sizes.begin() + block.end, std::int64_t{0});
}

class ProcessGathering final : public Gathering {
 public:
  explicit ProcessGathering(ProcessPeers& peers) : peers_(peers) {}

  Tensors all_gather(at::Tensor own) override {
    own = own.contiguous();
    if (peers_.group().kind == GroupKind::kWorld) return all_gather_in_mesh(own);
    Tensors all;
    for (std::int32_t m = 0; m < peers_.group().size; ++m)
      all.push_back(m == peers_.index() ? own : at::empty_like(own));
    Messages messages = begin_exchange(
        peers_, [&](std::int32_t /*to*/) { return own; },
        [&](std::int32_t from) { return all[static_cast<std::size_t>(from)]; });
    wait_for(messages);
    return all;
  }

  Tensors gather(const at::Tensor& own) override {
    const at::Tensor rows = at::full({1}, own.size(0), at::kLong);
    if (peers_.index() == 0) return gather_at_first(own, rows);
    Messages messages;
    messages.push_back(peers_.send(rows, 0));
    messages.push_back(peers_.send(own.contiguous(), 0));
    wait_for(messages);
    return {};
  }

  double sum(double value) override {
    double total = 0;
    for (const at::Tensor& given : all_gather(at::full({1}, value, at::kDouble)))
      total += given.item<double>();
    return total;
  }

 private:
  [[nodiscard]] Tensors all_gather_in_mesh(const at::Tensor& own) {
    const std::vector<std::int64_t> sizes(static_cast<std::size_t>(peers_.group().size),
                                          own.numel());
    Tensors all = all_gather_sized(peers_, own.view(-1), sizes);
    for (at::Tensor& tensor : all) tensor = tensor.view(own.sizes());
    return all;
  }

  [[nodiscard]] Tensors gather_at_first(const at::Tensor& own, const at::Tensor& rows) {
    const std::int32_t size = peers_.group().size;
    Messages messages;
    Tensors rows_of{rows};
    for (std::int32_t m = 1; m < size; ++m) {
      rows_of.push_back(at::empty_like(rows));
      messages.push_back(peers_.receive(rows_of.back(), m));
    }
    wait_for(messages);
    messages.clear();
    Tensors all{own.clone()};
    for (std::int32_t m = 1; m < size; ++m) {
      all.push_back(empty_rows(own, rows_of[static_cast<std::size_t>(m)].item<std::int64_t>()));
      messages.push_back(peers_.receive(all.back(), m));
    }
    wait_for(messages);
    return all;
  }

  ProcessPeers& peers_;
};

class ProcessRowExchange final : public RowExchange {
 public:
  explicit ProcessRowExchange(ProcessPeers& peers) : peers_(peers) {}

  at::Tensor all_gather_rows(const at::Tensor& own, const Tensors& rows_of) override {
    const at::Tensor given = own.contiguous();
    Tensors parts;
    std::int64_t rows = 0;
    for (std::int32_t m = 0; m < peers_.group().size; ++m) {
      const std::int64_t of_member = rows_of[static_cast<std::size_t>(m)].numel();
      parts.push_back(m == peers_.index() ? given : empty_rows(own, of_member));
      rows += of_member;
    }
    Messages messages = begin_exchange(
        peers_, [&](std::int32_t /*to*/) { return given; },
        [&](std::int32_t from) { return parts[static_cast<std::size_t>(from)]; });
    at::Tensor all = empty_rows(own, rows);
    // Own rows are copied while those of others travel.
    const auto self = static_cast<std::size_t>(peers_.index());
    all.index_copy_(0, rows_of[self], given);
    wait_for(messages);
    for (std::size_t m = 0; m < parts.size(); ++m)
      if (m != self) all.index_copy_(0, rows_of[m], parts[m]);
    return all;
  }

  at::Tensor reduce_scatter_rows(const at::Tensor& part, const Tensors& rows_of) override {
    const auto rows_for = [&](std::int32_t m) {
      return part.index_select(0, rows_of[static_cast<std::size_t>(m)]);
    };
    const auto self = static_cast<std::size_t>(peers_.index());
    Tensors parts(rows_of.size());
    Messages messages = begin_exchange(peers_, rows_for, [&](std::int32_t from) {
      return parts[static_cast<std::size_t>(from)] = empty_rows(part, rows_of[self].numel());
    });
    // Own rows are selected while those of others travel.
    parts[self] = rows_for(peers_.index());
    wait_for(messages);
    for (std::size_t m = 1; m < parts.size(); ++m) parts[0].add_(parts[m]);
    return parts[0];
  }

 private:
  ProcessPeers& peers_;
};

class ProcessShifts final : public Shifts {
 public:
  explicit ProcessShifts(ProcessPeers& peers) : peers_(peers) {}

  void start_shift(Tensors tensors, std::int32_t step, std::int64_t rows) override {
    const std::int32_t size = peers_.group().size;
    const auto at_distance = [&](std::int32_t d) {
      return ((peers_.index() + d) % size + size) % size;
    };
    std::vector<Transfer> transfers;
    Shift shift;
    for (at::Tensor& tensor : tensors) {
      shift.received.push_back(empty_rows(tensor, rows));
      transfers.push_back({Kind::kReceive, shift.received.back(), at_distance(-step)});
      transfers.push_back({Kind::kSend, std::exchange(tensor, {}).contiguous(), at_distance(step)});
    }
    shift.messages = peers_.begin(std::move(transfers));
    shifting_.push_back(std::move(shift));
  }

  Tensors finish_shift() override {
    SLIMPACK_CHECK(!shifting_.empty());
    Shift shift = std::move(shifting_.front());
    shifting_.pop_front();
    wait_for(shift.messages);
    return std::move(shift.received);
  }

 private:
  /// An unfinished shift.
  struct Shift {
    Tensors received;
    Messages messages;
  };

  ProcessPeers& peers_;
  std::deque<Shift> shifting_;
};

class ProcessShardReduction final : public ShardReduction {
 public:
  explicit ProcessShardReduction(ProcessPeers& peers) : peers_(peers) {}

  void start_reduce_scatter(at::Tensor flat_N) override {
    Reduction reduction;
    const Shard own = shard(flat_N, peers_.index());
    for (std::int32_t m = 0; m < peers_.group().size; ++m)
      reduction.parts_S.push_back(m == peers_.index() ? own.of(flat_N)
                                                      : at::empty({own.size()}, flat_N.options()));
    reduction.messages = begin_exchange(
        peers_, [&](std::int32_t to) { return shard(flat_N, to).of(flat_N); },
        [&](std::int32_t from) { return reduction.parts_S[static_cast<std::size_t>(from)]; });
    reducing_.push_back(std::move(reduction));
  }

  void await_reduce_scatter() override {
    SLIMPACK_CHECK(!reducing_.empty());
    wait_for(reducing_.front().messages);
  }

  void finish_reduce_scatter() override {
    await_reduce_scatter();
    add_up_members(reducing_.front().parts_S, peers_.index());
    reducing_.pop_front();
  }

  void all_gather_shards(at::Tensor& flat_N) override {
    const at::Tensor own_S = shard(flat_N, peers_.index()).of(flat_N);
    Messages messages = begin_exchange(
        peers_, [&](std::int32_t /*to*/) { return own_S; },
        [&](std::int32_t from) { return shard(flat_N, from).of(flat_N); });
    wait_for(messages);
  }

  void all_reduce(at::Tensor& tensor) override {
    at::Tensor flat_N = tensor.contiguous().view(-1);
    start_reduce_scatter(flat_N);
    finish_reduce_scatter();
    all_gather_shards(flat_N);
    tensor.copy_(flat_N.view_as(tensor));
  }

 private:
  /// An unfinished reduction.
  struct Reduction {
    Tensors parts_S;  ///< of the own shard, by member
    Messages messages;
  };

  [[nodiscard]] Shard shard(const at::Tensor& flat_N, std::int32_t member) const {
    return {flat_N.numel(), peers_.group().size, member};
  }

  ProcessPeers& peers_;
  std::deque<Reduction> reducing_;
};

}  // namespace

std::vector<at::Tensor> all_gather_sized(ProcessPeers& peers, const at::Tensor& own_N,
                                         const std::vector<std::int64_t>& sizes) {
  const Mesh mesh(peers.group().size, peers.index());
  const at::Tensor all_N = at::empty({sum_of(sizes, {0, peers.group().size})}, own_N.options());
  const Tensors all = all_N.split_with_sizes(sizes);
  const auto of_block = [&](const Mesh::Block& block) {
    return all_N.narrow(0, sum_of(sizes, {0, block.begin}), sum_of(sizes, block));
  };
  const auto of_member = [&](std::int32_t m) { return all[static_cast<std::size_t>(m)]; };
  of_member(peers.index()).copy_(own_N);
  Messages messages = begin_exchange(
      peers, mesh.own, [&](std::int32_t /*to*/) { return of_member(peers.index()); }, of_member);
  wait_for(messages);
  std::vector<Transfer> transfers;
  for (const Mesh::Received& r : mesh.received)
    transfers.push_back({Kind::kReceive, of_block(r.block), r.from});
  for (const std::int32_t m : mesh.targets)
    transfers.push_back({Kind::kSend, of_block(mesh.own), m});
  messages = peers.begin(std::move(transfers));
  wait_for(messages);
  return all;
}

Collective process_collective(ProcessPeers& peers) {
  return {peers.group().size,
          peers.index(),
          {std::make_unique<ProcessGathering>(peers), std::make_unique<ProcessRowExchange>(peers),
           std::make_unique<ProcessShifts>(peers), std::make_unique<ProcessShardReduction>(peers)}};
}

}  // namespace slimpack
