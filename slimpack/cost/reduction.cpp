#include "slimpack/cost/reduction.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/parameter_counts.h"

namespace slimpack {
namespace {

/// With how many others a member talks at most (packflow/ranks/mesh.h) if blocks have so many
/// members: those of its block, and one for each place in another block that it serves.
std::int32_t most_partners(std::int32_t members, std::int32_t size) {
  const std::int32_t whole = members / size, rest = members % size;
  const std::int32_t of_whole = whole == 0 ? 0 : size - 1 + whole - 1 + (rest > 0 ? 1 : 0);
  if (rest == 0) return of_whole;
  return std::max(of_whole, rest - 1 + whole * ((size + rest - 1) / rest));
}

/// Exchanges of one bucket after the other between replicas.
class Exchange {
 public:
  Exchange(const Costs& cost, const StageLayout& layout, WeightBytes bytes, std::int32_t replicas)
      : bytes_(bytes) {
    if (replicas == 1) return;
    latency_ = cost.reduction.latency *
               reduction_rounds({cost.host.ranks_per_node, cost.tp, layout.ranks(), replicas});
    per_byte_ = cost.reduction.per_byte / cost.tp * (replicas - 1) / replicas;
  }

  /// Nanoseconds of a bucket with so many parameters of a whole stage; 0 without any that travel.
  [[nodiscard]] double operator()(const ParameterCount& parameters) const {
    const double bytes = bytes_.of(parameters);
    return bytes > 0 ? latency_ + per_byte_ * bytes : 0;
  }

 private:
  WeightBytes bytes_;  ///< of each parameter, that travel
  double latency_ = 0;
  double per_byte_ = 0;
};

/// Parameters by bucket, in the order of backward.
struct Buckets {
  ParameterCount head;                 ///< none = no bucket, as the embedding's
  std::vector<ParameterCount> layers;  ///< from the last to the first
  ParameterCount embedding;

  [[nodiscard]] std::vector<ParameterCount> all() const {
    std::vector<ParameterCount> all = layers;
    for (const ParameterCount& end : {head, embedding})
      if (end.all() > 0) all.push_back(end);
    return all;
  }
};

ParameterCount operator-(const ParameterCount& a, const ParameterCount& b) {
  return {a.frozen - b.frozen, a.trained - b.trained};
}

Buckets buckets_of(const Costs& cost, const StageLayout& layout, StageId stage) {
  Buckets buckets;
  ParameterCount rest = stage_parameters(cost, layout, stage);
  for (std::int32_t l = layout.layer_begin[stage.index() + 1];
       l-- > layout.layer_begin[stage.index()];) {
    buckets.layers.push_back(
        layer_parameters(cost, cost.shape.kind_of(static_cast<std::size_t>(l))));
    rest = rest - buckets.layers.back();
  }
  if (stage.value() < (layout.spread_vocabulary ? layout.ranks() : 1)) {
    const std::int64_t share =
        share_of(cost.shape.embedding_parameters(), layout.spread_vocabulary ? layout.ranks() : 1);
    buckets.embedding = {std::min(rest.frozen, share), std::min(rest.trained, share)};
  }
  buckets.head = rest - buckets.embedding;
  return buckets;
}

/// Gradients in the accumulate type, which frozen parameters do not have.
WeightBytes gradient_bytes(const Costs& cost) {
  return {0, static_cast<double>(accumulator_bytes(cost.dtype))};
}

/// All buckets one after the other.
double exchange_all(const Costs& cost, const StageLayout& layout, StageId stage, WeightBytes bytes,
                    std::int32_t replicas) {
  const Exchange exchange(cost, layout, bytes, replicas);
  double time = 0;
  for (const ParameterCount& bucket : buckets_of(cost, layout, stage).all())
    time += exchange(bucket);
  return time;
}

}  // namespace

std::vector<MemberBlock> member_blocks(std::int32_t members) {
  constexpr std::int32_t kNode = 8;
  std::int32_t size = kNode;
  for (std::int32_t other = 2 * kNode; other / 2 < members; other *= 2)
    if (most_partners(members, other) <= most_partners(members, size)) size = other;
  if (members < 2 * kNode) size = members;
  std::vector<MemberBlock> blocks;
  for (std::int32_t begin = 0; begin < members; begin += size)
    blocks.push_back({begin, std::min(begin + size, members)});
  return blocks;
}

std::int32_t reduction_rounds(const NodePlacement& placement) {
  const std::int32_t in_node = placement.replicas_summed_in_node();
  const std::int32_t between = member_blocks(placement.replicas / in_node).size() > 1 ? 2 : 1;
  return (in_node > 1 ? 1 : 0) + between;
}

Link reduction_link(const LinkMap& links, const NodePlacement& placement) {
  const double n = placement.replicas, g = placement.replicas_summed_in_node();
  const Link between = links.link(placement.holds_replicas(placement.replicas));
  if (g == 1) return between;
  const Link inside = links.link(true);
  const double rounds = reduction_rounds(placement);
  const double stays = (g - 1) / g * n / (n - 1);  // of the (n − 1)/n that leave a rank
  return {(inside.latency + (rounds - 1) * between.latency) / rounds,
          stays * inside.per_byte + (1 - stays) * between.per_byte};
}

double reduction_after(const Costs& cost, const StageLayout& layout, StageId stage,
                       std::int32_t replicas, double last_backward, double before) {
  const Buckets buckets = buckets_of(cost, layout, stage);
  const Exchange reduce(cost, layout, gradient_bytes(cost), replicas);
  const double each = last_backward / static_cast<double>(buckets.layers.size());
  double complete = -last_backward;  // when the next layer is, counted from the action's end
  double reduced = -std::numeric_limits<double>::infinity();
  for (std::size_t l = 0; l < buckets.layers.size(); ++l) {
    complete = l + 1 < buckets.layers.size() ? complete + each : 0;
    if (l == 0) reduced = complete + before + reduce(buckets.head);
    reduced = std::max(reduced, complete) + reduce(buckets.layers[l]);
  }
  return reduced + reduce(buckets.embedding);
}

double parameter_gathering(const Costs& cost, const StageLayout& layout, StageId stage,
                           std::int32_t replicas) {
  if (cost.zero == 3) return 0;
  return exchange_all(cost, layout, stage, {0, weight_bytes(cost).trained}, replicas);
}

double shared_state_traffic(const Costs& cost, const StageLayout& layout, StageId stage,
                            std::int32_t replicas, Pass pass) {
  double time = 0;
  if (cost.zero == 3) time += exchange_all(cost, layout, stage, weight_bytes(cost), replicas);
  if (cost.zero >= 2 && pass == Pass::kBackward)
    time += exchange_all(cost, layout, stage, gradient_bytes(cost), replicas);
  return time;
}

ParameterCount largest_bucket(const Costs& cost, const StageLayout& layout, StageId stage) {
  ParameterCount largest;
  for (const ParameterCount& bucket : buckets_of(cost, layout, stage).all())
    largest = {std::max(largest.frozen, bucket.frozen), std::max(largest.trained, bucket.trained)};
  return largest;
}

}  // namespace slimpack
