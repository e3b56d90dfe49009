// Zeppelin (arXiv:2509.21841): all ranks of a group run a micro-batch together, and each sequence
// of it is shared by one rank, by the ranks of a node, or by those of several nodes.
#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"
#include "slimpack/zones/zones.h"

namespace slimpack {
namespace {

/// A rank holds at most so many times its share of a micro-batch. With exactly its share, packing
/// would leave no room for the last sequences, and all would become one ring.
constexpr std::int64_t kRoom = 2;

/// Replicas of one node, where every pipeline has its ranks side by side.
std::int32_t replicas_per_node(const BaselineInput& input, std::int32_t group) {
  const NodePlacement nodes = input.table.placement();
  const std::int32_t on_node =
      nodes.ranks_per_node == 0 ? group
                                : std::max(1, nodes.ranks_per_node / (nodes.stages * nodes.tensor));
  return std::gcd(group, on_node);
}

/// Sizes of zones are powers of two, as those of all shared packs. Zeppelin's own are nodes times
/// any number.
Zone widened(const Zone& zone, std::int32_t group) {
  const auto size = static_cast<std::int32_t>(std::bit_ceil(static_cast<unsigned>(zone.size)));
  return {std::min(zone.first, group - size), size};
}

/// The partition of micro-batches of one size.
class MicroBatches {
 public:
  explicit MicroBatches(const BaselineInput& input)
      : lengths_(input.lengths),
        group_(zeppelin_group(input)),
        share_(shared_tokens(input, group_)),
        remap_(input.tuning.remap),
        problem_{.ranks = group_, .links = {}, .rank_tokens = share_ * kRoom} {
    if (group_ == 1) return;
    const std::int32_t on_node = replicas_per_node(input, group_);
    problem_.links.ranks_per_node = on_node;
    const auto from = [&](std::int32_t replicas) {
      return crossover(step_cost(input.table), step_cost(input.table, replicas), replicas);
    };
    if (on_node > 1) crossovers_.node = from(on_node);
    if (2 * on_node <= group_) crossovers_.across = from(2 * on_node);
  }

  [[nodiscard]] std::int32_t group() const { return group_; }
  /// Their sequences, as a data loader hands them out.
  [[nodiscard]] SequencePacks sequences() const {
    return pack_sequences(lengths_, all_sequences(lengths_), share_ * group_,
                          Packing::kConcatenated);
  }
  [[nodiscard]] MicroPack pack(const std::vector<SequenceId>& ids) const {
    if (group_ == 1) return whole_pack(lengths_, ids);
    SequenceLengths own;
    for (const SequenceId id : ids) own.push_back(lengths_[id.index()]);
    Zones zones = zeppelin_zones(own, problem_, crossovers_);
    for (Zone& zone : zones) zone = widened(zone, group_);
    const Zones holders = remap_ ? row_zones(own, zones, problem_.links, group_) : Zones();
    return zoned_pack(lengths_, ids, group_, zones, holders);
  }

 private:
  const SequenceLengths& lengths_;
  std::int32_t group_;
  Tokens share_;
  bool remap_;
  ZoneProblem problem_;
  ZoneCrossovers crossovers_;
};

}  // namespace

std::int32_t zeppelin_group(const BaselineInput& input) {
  return input.tuning.group > 0 ? input.tuning.group : largest_dividing_group(input);
}

BaselinePlan zeppelin_plan(const BaselineInput& input,
                           const std::vector<SequencePacks>& /*shares*/) {
  const MicroBatches batches(input);
  const auto replicas = static_cast<std::size_t>(input.replicas());
  const auto group = static_cast<std::size_t>(batches.group());
  std::vector<PackPlan> of_group(replicas / group);
  std::size_t next = 0;
  for (const auto& ids : batches.sequences())
    of_group[next++ % of_group.size()].forward.push_back(batches.pack(ids));
  std::vector<PackPlan> of_replica;
  for (PackPlan& packs : of_group) {
    packs.backward = packs.forward;
    of_replica.insert(of_replica.end(), group, packs);
  }
  return {.plan = step_of(input, std::move(of_replica))};
}

std::vector<Tuning> zeppelin_tunings(const BaselineInput& input) {
  std::vector<Tuning> tunings = share_tunings(input, largest_dividing_group(input));
  for (std::int32_t group = largest_dividing_group(input) / 2; group > 1; group /= 2)
    tunings.push_back({.group = group});
  return varied(tunings, &Tuning::remap, {false, true});
}

}  // namespace slimpack
