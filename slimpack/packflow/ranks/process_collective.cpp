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
#include "slimpack/packflow/ranks/mesh.h"
#include "slimpack/packflow/ranks/process_shifts.h"

namespace slimpack {
namespace {

using Tensors = std::vector<at::Tensor>;
using Travelling = std::vector<ProcessPeers::Message>;
using Transfer = ProcessPeers::Transfer;
using Kind = Transfer::Kind;

void wait_for(Travelling& messages) {
  for (ProcessPeers::Message& message : messages) message.wait();
}

/// Begins to send given(member) to every other one of `members`, and to receive taken(member) from
/// it.
template <class Given, class Taken>
[[nodiscard]] Travelling begin_exchange(ProcessPeers& peers, const Mesh::Block& members,
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
[[nodiscard]] Travelling begin_exchange(ProcessPeers& peers, const Given& given,
                                        const Taken& taken) {
  return begin_exchange(peers, {0, peers.group().size}, given, taken);
}

std::int64_t sum_of(const std::vector<std::int64_t>& sizes, const Mesh::Block& block) {
  return std::accumulate(sizes.begin() + block.begin, sizes.begin() + block.end, std::int64_t{0});
}

/// Fills the tensor with the parts of all members, which lie end to end; member m's has sizes[m]
/// elements. Each member has its own one.
void all_gather_in_place(ProcessPeers& peers, const at::Tensor& all_N,
                         const std::vector<std::int64_t>& sizes) {
  const Mesh mesh(peers.group().size, peers.index());
  const auto of_block = [&](const Mesh::Block& block) {
    return all_N.narrow(0, sum_of(sizes, {0, block.begin}), sum_of(sizes, block));
  };
  const auto of_member = [&](std::int32_t m) { return of_block({m, m + 1}); };
  Travelling messages = begin_exchange(
      peers, mesh.own, [&](std::int32_t /*to*/) { return of_member(peers.index()); }, of_member);
  wait_for(messages);
  std::vector<Transfer> transfers;
  for (const Mesh::Received& r : mesh.received)
    transfers.push_back({Kind::kReceive, of_block(r.block), r.from});
  for (const std::int32_t m : mesh.targets)
    transfers.push_back({Kind::kSend, of_block(mesh.own), m});
  messages = peers.begin(std::move(transfers));
  wait_for(messages);
}

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

class ProcessShardReduction final : public ShardReduction {
 public:
  explicit ProcessShardReduction(ProcessPeers& peers)
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
    at::Tensor sum_K = add_up(reduction.parts_K);
    if (!mesh_.received.empty()) sum_K = sum_of_blocks(sum_K, reduction.flat_N);
    shard(reduction.flat_N, peers_.index()).of(reduction.flat_N).copy_(sum_K);
  }

  void all_gather_shards(at::Tensor& flat_N) override {
    std::vector<std::int64_t> sizes;
    for (std::int32_t m = 0; m < peers_.group().size; ++m) sizes.push_back(shard(flat_N, m).size());
    all_gather_in_place(peers_, flat_N, sizes);
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
    return add_up(parts_S);
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
    // It has answered, so all that was lent to it has arrived.
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

Collective process_collective(ProcessPeers& peers, std::int32_t route_over) {
  return {
      peers.group().size,
      peers.index(),
      {std::make_unique<ProcessGathering>(peers), std::make_unique<ProcessRowExchange>(peers),
       std::make_unique<ProcessShifts>(peers, route_over),
       std::make_unique<ProcessShardReduction>(peers), std::make_unique<ProcessMessages>(peers)}};
}

}  // namespace slimpack
