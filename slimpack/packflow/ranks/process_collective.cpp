#include "slimpack/packflow/ranks/process_collective.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/ranks/process_transfers.h"

namespace slimpack {
namespace {

using Tensors = std::vector<at::Tensor>;
using Transfer = ProcessPeers::Transfer;
using Kind = Transfer::Kind;

class ProcessGathering final : public Gathering {
 public:
  explicit ProcessGathering(ProcessPeers& peers) : peers_(peers) {}

  Tensors all_gather(at::Tensor own) override {
    const std::vector<std::int64_t> sizes(static_cast<std::size_t>(peers_.group().size),
                                          own.numel());
    Tensors all = all_gather_sized(peers_, own.contiguous().view(-1), sizes);
    for (at::Tensor& tensor : all) tensor = tensor.view(own.sizes());
    return all;
  }

  /// The first member of each block gets what the block has, and the first one of all gets that.
  Tensors gather(const at::Tensor& own) override {
    std::vector<std::int64_t> rows;
    for (const at::Tensor& of_member : all_gather(at::full({1}, own.size(0), at::kLong)))
      rows.push_back(of_member.item<std::int64_t>());
    const std::int32_t size = peers_.group().size;
    const Mesh::Block block = Mesh(size, peers_.index()).own;
    if (peers_.index() != block.begin) {
      peers_.send(own.contiguous(), block.begin).wait();
      return {};
    }
    const bool first = peers_.index() == 0;
    const Mesh::Block mine = first ? Mesh::Block{0, size} : block;
    const at::Tensor held = empty_rows(own, sum_of(rows, mine));
    const auto rows_of = [&](const Mesh::Block& members) {
      return held.narrow(0, sum_of(rows, {mine.begin, members.begin}), sum_of(rows, members));
    };
    receive_members(block, own, rows_of);
    if (!first) {
      peers_.send(held, 0).wait();
      return {};
    }
    receive_blocks(rows_of);
    return held.split_with_sizes(rows);
  }

  double sum(double value) override {
    double total = 0;
    for (const at::Tensor& given : all_gather(at::full({1}, value, at::kDouble)))
      total += given.item<double>();
    return total;
  }

 private:
  /// rows_of: the rows of some members in the tensor that is gathered.
  template <class RowsOf>
  void receive_members(const Mesh::Block& block, const at::Tensor& own, const RowsOf& rows_of) {
    rows_of({block.begin, block.begin + 1}).copy_(own);
    Travelling messages;
    for (std::int32_t m = block.begin + 1; m < block.end; ++m)
      messages.push_back(peers_.receive(rows_of({m, m + 1}), m));
    wait_for(messages);
  }

  template <class RowsOf>
  void receive_blocks(const RowsOf& rows_of) {
    Travelling messages;
    for (const Mesh::Block& block : Mesh::blocks(peers_.group().size))
      if (block.begin != 0) messages.push_back(peers_.receive(rows_of(block), block.begin));
    wait_for(messages);
  }

  ProcessPeers& peers_;
};

/// Where one member has most of the rows, members share them evenly in between, so that it passes
/// about two copies of them instead of one for every other member.
class ProcessRowExchange final : public RowExchange {
 public:
  explicit ProcessRowExchange(ProcessPeers& peers) : peers_(peers) {}

  at::Tensor all_gather_rows(const at::Tensor& own, const MemberRows& rows) override {
    const at::Tensor all = empty_rows(own, rows.rows());
    all.split_with_sizes(rows.counts)[self()].copy_(own);
    if (mostly_on_one(rows)) {
      const Counts even = even_counts(rows.rows());
      reshare(all, rows.counts, even);
      gather_parts(all, even);
    } else {
      gather_parts(all, rows.counts);
    }
    return all.index_select(0, rows.places_T);
  }

  at::Tensor reduce_scatter_rows(const at::Tensor& part, const MemberRows& rows) override {
    const at::Tensor given = part.index_select(0, rows.order_T);
    if (!mostly_on_one(rows)) return sum_of_own(given, rows.counts);
    const Counts even = even_counts(rows.rows());
    const at::Tensor all = empty_rows(part, rows.rows());
    all.split_with_sizes(even)[self()].copy_(sum_of_own(given, even));
    reshare(all, even, rows.counts);
    return all.split_with_sizes(rows.counts)[self()].clone();
  }

  Tensors all_to_all(Tensors given, const std::vector<std::int64_t>& counts) override {
    Tensors taken;
    for (std::size_t m = 0; m < counts.size(); ++m)
      taken.push_back(m == self() ? given[m] : empty_rows(given[m], counts[m]));
    Travelling messages = begin_exchange(
        peers_, [&](std::int32_t to) { return given[static_cast<std::size_t>(to)]; },
        [&](std::int32_t from) { return taken[static_cast<std::size_t>(from)]; });
    wait_for(messages);
    return taken;
  }

 private:
  using Counts = std::vector<std::int64_t>;  ///< rows by member

  [[nodiscard]] std::size_t self() const { return static_cast<std::size_t>(peers_.index()); }
  [[nodiscard]] std::int32_t size() const { return peers_.group().size; }

  /// Whether sharing evenly in between sends less.
  [[nodiscard]] bool mostly_on_one(const MemberRows& rows) const {
    return size() > 3 && 2 * std::ranges::max(rows.counts) > rows.rows();
  }
  [[nodiscard]] Counts even_counts(std::int64_t rows) const {
    Counts counts;
    for (std::int32_t m = 0; m < size(); ++m) counts.push_back(Shard(rows, size(), m).size());
    return counts;
  }

  /// Fills every member's part from its owner.
  void gather_parts(const at::Tensor& all, const Counts& counts) {
    const Tensors parts = all.split_with_sizes(counts);
    Travelling messages = begin_exchange(
        peers_, [&](std::int32_t /*to*/) { return parts[self()]; },
        [&](std::int32_t from) { return parts[static_cast<std::size_t>(from)]; });
    wait_for(messages);
  }

  /// Moves rows from members that have `before` of them to members that then have `after`.
  void reshare(const at::Tensor& all, const Counts& before, const Counts& after) {
    const auto common = [&](std::int32_t from, std::int32_t to) {
      const std::int64_t begin = std::max(sum_of(before, {0, from}), sum_of(after, {0, to}));
      const std::int64_t end = std::min(sum_of(before, {0, from + 1}), sum_of(after, {0, to + 1}));
      return all.narrow(0, std::min(begin, end), std::max<std::int64_t>(0, end - begin));
    };
    Travelling messages = begin_exchange(
        peers_, [&](std::int32_t to) { return common(peers_.index(), to); },
        [&](std::int32_t from) { return common(from, peers_.index()); });
    wait_for(messages);
  }

  /// The sum over all members of this one's part, added in their order.
  [[nodiscard]] at::Tensor sum_of_own(const at::Tensor& part, const Counts& counts) {
    const Tensors given = part.split_with_sizes(counts);
    const at::Tensor& kept = given[self()];
    const at::Tensor taken = empty_rows(part, kept.size(0) * (size() - 1));
    Tensors parts;
    for (std::int32_t m = 0; m < size(); ++m)
      parts.push_back(
          m == peers_.index()
              ? kept
              : taken.narrow(0, (m < peers_.index() ? m : m - 1) * kept.size(0), kept.size(0)));
    Travelling messages = begin_exchange(
        peers_, [&](std::int32_t to) { return given[static_cast<std::size_t>(to)]; },
        [&](std::int32_t from) { return parts[static_cast<std::size_t>(from)]; });
    wait_for(messages);
    return add_up(parts);
  }

  ProcessPeers& peers_;
};

class ProcessMessages final : public Messages {
 public:
  explicit ProcessMessages(ProcessPeers& peers) : peers_(peers) {}

  void lend(Tensors tensors, std::int32_t to) override { send(std::move(tensors), to, lent_[to]); }

  void give(Tensors tensors, std::int32_t to) override {
    free_what_has_left();
    send(std::move(tensors), to, leaving_);
  }

  void start_receive(const std::vector<TensorForm>& forms, std::int32_t from) override {
    std::vector<Transfer> transfers;
    for (const TensorForm& form : forms)
      transfers.push_back({Kind::kReceive, at::empty(form.sizes, form.options), from});
    coming_[from].push_back(peers_.begin(std::move(transfers)));
  }

  Tensors finish_receive(std::int32_t from) override {
    std::deque<Travelling>& posted = coming_[from];
    SLIMPACK_CHECK(!posted.empty(), "tensors are awaited whose receive was not started");
    Travelling messages = std::move(posted.front());
    posted.pop_front();
    wait_for(messages);
    // The other member has answered, so all tensors that were lent to it have arrived.
    Travelling lent(std::exchange(lent_[from], {}));
    wait_for(lent);
    free_what_has_left();
    Tensors tensors;
    for (const ProcessPeers::Message& message : messages) tensors.push_back(message.tensor());
    return tensors;
  }

 private:
  void send(Tensors tensors, std::int32_t to, Travelling& sent) {
    std::vector<Transfer> transfers;
    for (at::Tensor& tensor : tensors)
      transfers.push_back({Kind::kSend, std::exchange(tensor, {}).contiguous(), to});
    for (ProcessPeers::Message& message : peers_.begin(std::move(transfers)))
      sent.push_back(std::move(message));
  }
  void free_what_has_left() {
    std::erase_if(leaving_, [](ProcessPeers::Message& message) {
      if (!message.done()) return false;
      message.wait();
      return true;
    });
  }

  ProcessPeers& peers_;
  std::map<std::int32_t, std::deque<Travelling>> coming_;  ///< by member
  std::map<std::int32_t, Travelling> lent_;                ///< by member, until it answers
  Travelling leaving_;                                     ///< given, and maybe not yet there
};

}  // namespace

std::vector<at::Tensor> all_gather_sized(ProcessPeers& peers, const at::Tensor& own_N,
                                         const std::vector<std::int64_t>& sizes) {
  const at::Tensor all_N = at::empty({sum_of(sizes, {0, peers.group().size})}, own_N.options());
  Tensors all = all_N.split_with_sizes(sizes);
  all[static_cast<std::size_t>(peers.index())].copy_(own_N);
  all_gather_in_place(peers, all_N, sizes);
  return all;
}

Collective process_collective(ProcessPeers& peers, std::unique_ptr<ShardReduction> shards,
                              std::int32_t route_over) {
  return {peers.group().size,
          peers.index(),
          {std::make_unique<ProcessGathering>(peers), std::make_unique<ProcessRowExchange>(peers),
           std::make_unique<ProcessShifts>(peers, route_over),
           shards ? std::move(shards) : message_reduction(peers),
           std::make_unique<ProcessMessages>(peers)}};
}

}  // namespace slimpack
