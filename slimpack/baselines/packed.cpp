#include "slimpack/baselines/packed.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

/// The room of every pack. Finds the pack for the next sequence in O(log packs).
class BestFit {
 public:
  /// The fullest pack with that much room, if any.
  [[nodiscard]] std::optional<std::size_t> find(Tokens length) const {
    const auto best = rooms_.lower_bound(std::pair(length, std::size_t{0}));
    if (best == rooms_.end()) return std::nullopt;
    return best->second;
  }
  void set(std::size_t pack, Tokens before, Tokens room) {
    rooms_.erase(std::pair(before, pack));
    rooms_.emplace(room, pack);
  }

 private:
  std::set<std::pair<Tokens, std::size_t>> rooms_;
};

/// A tree of maxima over the packs' rooms: node i has the children 2i and 2i + 1.
class FirstFit {
 public:
  explicit FirstFit(std::size_t most_packs)
      : leaves_(std::bit_ceil(std::max<std::size_t>(most_packs, 1))), most_(2 * leaves_) {}

  /// The oldest pack with that much room, if any.
  [[nodiscard]] std::optional<std::size_t> find(Tokens length) const {
    if (most_[1] < length) return std::nullopt;
    std::size_t node = 1;
    while (node < leaves_) node = most_[2 * node] >= length ? 2 * node : 2 * node + 1;
    return node - leaves_;
  }
  void set(std::size_t pack, Tokens /*before*/, Tokens room) {
    std::size_t node = pack + leaves_;
    for (most_[node] = room; node > 1;) {
      node /= 2;
      most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
    }
  }

 private:
  std::size_t leaves_;
  std::vector<Tokens> most_;
};

/// Finds room only in the pack that was opened last.
class LastFit {
 public:
  [[nodiscard]] std::optional<std::size_t> find(Tokens length) const {
    return last_ && room_ >= length ? last_ : std::nullopt;
  }
  void set(std::size_t pack, Tokens /*before*/, Tokens room) {
    last_ = pack;
    room_ = room;
  }

 private:
  std::optional<std::size_t> last_;
  Tokens room_;
};

template <class Rooms>
std::vector<std::vector<SequenceId>> fill(Rooms rooms, const SequenceLengths& lengths,
                                          const std::vector<SequenceId>& order, Tokens capacity) {
  std::vector<std::vector<SequenceId>> packs;
  std::vector<Tokens> room;
  for (const SequenceId id : order) {
    const Tokens length = lengths[id.index()];
    const std::size_t pack = rooms.find(length).value_or(packs.size());
    if (pack == packs.size()) {
      packs.emplace_back();
      room.push_back(capacity);
    }
    rooms.set(pack, room[pack], room[pack] - length);
    room[pack] -= length;
    packs[pack].push_back(id);
  }
  return packs;
}

}  // namespace

std::vector<std::vector<SequenceId>> pack_sequences(const SequenceLengths& lengths,
                                                    const std::vector<SequenceId>& sequences,
                                                    Tokens capacity, Packing packing) {
  std::vector<SequenceId> order = sequences;
  const auto longer = [&](SequenceId a, SequenceId b) {
    return std::pair(lengths[b.index()], a) < std::pair(lengths[a.index()], b);
  };
  const auto longest = std::min_element(order.begin(), order.end(), longer);
  if (longest != order.end() && lengths[longest->index()] > capacity) {
    invalid_input(
        "sequence {} has {} tokens, but a pack holds {}; raise the context or cut the sequence",
        longest->value(), lengths[longest->index()].count(), capacity.count());
  }
  for (const SequenceId id : order) SLIMPACK_CHECK(lengths[id.index()] >= Tokens(1));
  switch (packing) {
    case Packing::kConcatenated:
      return fill(LastFit(), lengths, order, capacity);
    case Packing::kFirstFit:
      std::sort(order.begin(), order.end(), longer);
      return fill(FirstFit(order.size()), lengths, order, capacity);
    case Packing::kBestFit:
      break;
  }
  std::sort(order.begin(), order.end(), longer);
  return fill(BestFit(), lengths, order, capacity);
}

MicroPack whole_pack(const SequenceLengths& lengths, const std::vector<SequenceId>& sequences) {
  MicroPack pack;
  pack.slices.reserve(sequences.size());
  for (const SequenceId id : sequences)
    pack.slices.push_back(Slice{id, Tokens(0), lengths[id.index()]});
  return pack;
}

PackCost step_cost(const StageTable& table, std::int32_t replicas) {
  PackCost sum;
  for (std::int32_t s = 0; s < table.layout().stages(); ++s)
    for (const Pass pass : kWholePasses) sum = sum + table.stage(StageId(s), pass, replicas);
  return sum;
}

std::vector<std::int64_t> sequence_costs(const BaselineInput& input) {
  const PackCost step = step_cost(input.table);
  std::vector<std::int64_t> costs;
  costs.reserve(input.lengths.size());
  for (const Tokens length : input.lengths)
    costs.push_back(std::llround(std::ceil(step(Slice{SequenceId(), Tokens(0), length}))));
  return costs;
}

StepPlan step_of(const BaselineInput& input, std::vector<PackPlan> replicas) {
  StepPlan plan{input.lengths, input.layout(), {}};
  for (PackPlan& packs : replicas) {
    ReplicaPlan& replica = plan.replicas.emplace_back();
    for (const MicroPack& pack : packs.forward)
      for (const Slice& slice : pack.slices) replica.sequences.push_back(slice.sequence);
    std::sort(replica.sequences.begin(), replica.sequences.end());
    replica.sequences.erase(std::unique(replica.sequences.begin(), replica.sequences.end()),
                            replica.sequences.end());
    replica.packs = std::move(packs);
  }
  return plan;
}

StepPlan shared_step(const BaselineInput& input, const std::vector<SequencePacks>& shares,
                     std::int32_t group,
                     const std::function<MicroPack(const std::vector<SequenceId>&)>& pack) {
  std::vector<PackPlan> replicas;
  for (const SequencePacks& share : shares) {
    PackPlan plan;
    for (const auto& sequences : share) plan.forward.push_back(pack(sequences));
    plan.backward = plan.forward;
    replicas.insert(replicas.end(), input.first_of_group ? 1U : static_cast<std::size_t>(group),
                    plan);
  }
  return step_of(input, std::move(replicas));
}

StepPlan whole_step(const BaselineInput& input, const std::vector<SequencePacks>& packs) {
  std::vector<PackPlan> replicas;
  for (const auto& own : packs) {
    PackPlan& plan = replicas.emplace_back();
    for (const auto& pack : own) plan.forward.push_back(whole_pack(input.lengths, pack));
    plan.backward = plan.forward;
  }
  return step_of(input, std::move(replicas));
}

}  // namespace slimpack
