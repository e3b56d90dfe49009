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
        remap_(input.tuning.remap),
        problem_{
            .ranks = group_, .links = {}, .rank_tokens = shared_tokens(input, group_) * kRoom} {
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
  bool remap_;
  ZoneProblem problem_;
  ZoneCrossovers crossovers_;
};

}  // namespace

std::int32_t zeppelin_group(const BaselineInput& input) {
  return input.tuning.group > 0 ? input.tuning.group : largest_dividing_group(input);
}

SequencePacks zeppelin_packs(const BaselineInput& input) {
  const std::int32_t group = zeppelin_group(input);
  return pack_sequences(input.lengths, all_sequences(input.lengths),
                        shared_tokens(input, group) * group, Packing::kConcatenated);
}

BaselinePlan zeppelin_plan(const BaselineInput& input, const std::vector<SequencePacks>& shares) {
  const MicroBatches batches(input);
  return {.plan = shared_step(input, shares, batches.group(),
                              [&](const auto& sequences) { return batches.pack(sequences); })};
}

std::vector<Tuning> zeppelin_tunings(const BaselineInput& input) {
  std::vector<Tuning> tunings = share_tunings(input, largest_dividing_group(input));
  for (std::int32_t group = largest_dividing_group(input) / 2; group > 1; group /= 2)
    tunings.push_back({.group = group});
  return varied(tunings, &Tuning::remap, {false, true});
}

}  // namespace slimpack
