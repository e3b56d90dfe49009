#include "bench/published/costs.h"

#include <algorithm>

#include "bench/published/accounting.h"
#include "slimpack/cost/recomputed_cost.h"
#include "slimpack/spec/hardware.h"

namespace slimpack::bench {
namespace {

constexpr double kNanosPerMicro = 1e3;
/// All-reduces of a layer in one pass: after attention and after the MLP.
constexpr double kCollectives = 2;

/// The nanoseconds of one layer on one MicroPack of the job.
double on_one_pack(const PackCost& cost, const PublishedJob& job) {
  double nanos = cost.per_pack;
  for (const Slice& slice : job.packs.forward.front().slices) nanos += cost(slice);
  return nanos;
}

/// With sequence sharding backward gathers the inputs of attention and of the MLP again. Without,
/// every rank has them whole, and an all-reduce costs as much as a gather and a scatter.
void drop_gathers(const PublishedJob& job, const HardwareSpec& h, PackCost& backward) {
  const NodePlacement placement{h.ranks_per_node, job.tp, job.layout.ranks(), job.dp};
  const bool in_node = placement.holds_tensor();
  const double rate = in_node ? h.node_link_bytes_per_second : h.link_bytes_per_second;
  const double latency = in_node ? h.node_link_latency_us : h.link_latency_us;
  const double others = static_cast<double>(job.tp - 1) / job.tp;
  const auto hidden = static_cast<double>(job.shape.hidden_size());
  const auto element = static_cast<double>(element_bytes(Dtype::kBf16));
  backward.per_pack -= 2 * latency * kNanosPerMicro;
  backward.per_token -= 2 * others * hidden * element / rate * kNanosPerSecond;
}

/// The time of the bytes that the runtime moves through memory in forward, beyond the cost model.
PackCost moved_bytes(const PublishedJob& job) {
  const double per_byte = kNanosPerSecond / job.hardware.memory_bandwidth;
  const double ways = job.sequence_sharded ? job.tp : 1;
  PackCost cost;
  cost.per_token = job.runtime.elementwise_bytes * static_cast<double>(job.shape.hidden_size()) *
                   per_byte / ways;
  cost.per_pair = job.runtime.score_bytes * static_cast<double>(job.shape.kinds[0].num_heads) *
                  per_byte / job.tp;
  return cost;
}

/// The time of the products that torchtitan's selective recomputation runs again: keys, the output
/// projection and the MLP's second map. They are every second product in the order in which a layer
/// runs them.
PackCost every_second_product(const PublishedJob& job, const PackCost& forward) {
  const LayerShape layer = job.shape.kinds[0];
  const auto width = [](std::int64_t elements) { return static_cast<double>(elements); };
  const double h = width(layer.hidden_size);
  const double again =
      h * width(layer.k_width()) + width(layer.out_width()) * h + h * width(layer.active_width());
  return {.per_token = again / width(layer.active_weights()) * forward.per_token};
}

PackCost computed_again(const PublishedJob& job, const PackCost& forward) {
  switch (job.kept) {
    case Kept::kEverything:
      return {};
    case Kept::kAllButAttention:
      return {.per_slice = forward.per_slice, .per_pair = forward.per_pair};
    case Kept::kEverySecond:
      return every_second_product(job, forward);
    case Kept::kInput:
      return forward;
  }
  return {};
}

/// The host's nanoseconds for so many forwards of a layer and the collectives of so many passes.
double host_time(const PublishedJob& job, double forwards, double passes) {
  const RuntimeSpec& runtime = job.runtime;
  const double collective =
      job.tp == 1 ? 0 : runtime.collective_host_us + (job.tp - 1) * runtime.collective_rank_us;
  return (forwards * runtime.layer_host_us + passes * kCollectives * collective) * kNanosPerMicro;
}

void lengthen(const PublishedJob& job, double least, PackCost& pass) {
  pass.per_pack += std::max(0.0, least - on_one_pack(pass, job));
}

void add_edges(const PublishedJob& job, Costs& cost) {
  const double host = job.runtime.edge_host_us * kNanosPerMicro;
  const double bytes = job.runtime.logit_bytes * static_cast<double>(job.shape.vocab_size);
  cost.ends.embedding_forward.per_pack += host;
  cost.ends.head_backward.per_pack += host;
  cost.ends.head_backward.per_token +=
      bytes / job.tp / job.hardware.memory_bandwidth * kNanosPerSecond;
}

/// Bytes per second that a rank sends in a ring over a group of which a node has `members`. Across
/// nodes NCCL opens as many rings, and each leaves the node over another member's adapter.
double ring_rate(const HardwareSpec& hardware, std::int32_t members) {
  return std::min(hardware.node_link_bytes_per_second, members * hardware.link_bytes_per_second);
}

/// The hardware with the network as the collectives of tensor parallelism see it.
HardwareSpec with_tensor_rings(const PublishedJob& job) {
  HardwareSpec hardware = job.hardware;
  if (job.tp > hardware.ranks_per_node)
    hardware.link_bytes_per_second = ring_rate(hardware, hardware.ranks_per_node);
  return hardware;
}

/// Messages between stages, and the rings of replicas, have the network as it is.
void set_network(const PublishedJob& job, double tensor_rate, Costs& cost) {
  const HardwareSpec& h = job.hardware;
  cost.transfer.per_byte *= tensor_rate / h.link_bytes_per_second;
  const std::int32_t replica = job.tp * job.layout.ranks();
  const bool in_node = replica * job.dp <= h.ranks_per_node;
  cost.reduction.per_byte =
      kNanosPerSecond / (in_node ? h.node_link_bytes_per_second
                                 : ring_rate(h, std::max(1, h.ranks_per_node / replica)));
}

std::int32_t zero_of(Shared shared) {
  return shared == Shared::kEverything ? 3 : shared == Shared::kGradients ? 2 : 1;
}

}  // namespace

Costs published_costs(const PublishedJob& job) {
  const HardwareSpec hardware = with_tensor_rings(job);
  Costs cost =
      cost_from_hardware(job.shape, Dtype::kBf16, hardware, job.tp, job.dp, job.layout.ranks());
  LayerCosts& layer = cost.kinds.front();
  set_network(job, hardware.link_bytes_per_second, cost);
  if (job.tp > 1 && !job.sequence_sharded) drop_gathers(job, hardware, layer.backward);
  // Our own backward runs norms and activations again; other programs keep their results, or run
  // the whole layer again.
  if (job.runtime.elementwise_bytes == 0 && job.kept != Kept::kInput)
    layer.backward = backward_time(cost, Recompute::kNothing);
  const PackCost moved = moved_bytes(job);
  layer.forward = layer.forward + moved;
  layer.backward = layer.backward + 2.0 * moved + computed_again(job, layer.forward);
  const bool again = job.kept == Kept::kInput;
  lengthen(job, host_time(job, 1, 1), layer.forward);
  lengthen(job, host_time(job, again ? 1 : 0, again ? 2 : 1), layer.backward);
  add_edges(job, cost);
  cost.zero = zero_of(job.shared);
  cost.row_bytes = row_bytes(job);
  return cost;
}

}  // namespace slimpack::bench
