#include "slimpack/cost/link_costs.h"

#include <algorithm>
#include <cstddef>

#include "slimpack/cost/reduction.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {
namespace {

/// The inputs of every term.
struct LinkedJob {
  const Decoder& shape;
  LayerShape layer;  ///< of the kind whose times are asked for
  Dtype dtype;
  LinkMap links;
  NodePlacement placement;
  ContextParallel context;
  double tp = placement.tensor;

  [[nodiscard]] double element() const { return static_cast<double>(element_bytes(dtype)); }
  [[nodiscard]] double accumulator() const { return static_cast<double>(accumulator_bytes(dtype)); }
  [[nodiscard]] double hidden() const { return static_cast<double>(shape.hidden_size()); }
};

/// `count` all-gathers or reduce-scatters of a MicroPack's hidden states between tensor-parallel
/// ranks. Either one moves (tp − 1)/tp of the states into each rank.
EdgeTime tensor_parallel_collectives(const LinkedJob& job, double count) {
  if (job.tp == 1) return {};
  const Link link = job.links.link(job.placement.holds_tensor());
  const double bytes = (job.tp - 1) / job.tp * job.hidden() * job.element();
  return {.per_pack = count * link.latency, .per_token = count * bytes * link.per_byte};
}

/// `count` all-to-alls that bring a MicroPack's tokens to their experts, which are spread over the
/// tensor-parallel ranks, or bring them back. A rank has 1/tp of the tokens and sends a copy for
/// each expert of a token; (tp − 1)/tp of them go to others.
EdgeTime expert_exchanges(const LinkedJob& job, double count) {
  if (job.tp == 1 || job.layer.experts == 0) return {};
  const Link link = job.links.link(job.placement.holds_tensor());
  const double copies = static_cast<double>(job.layer.experts_per_token) / job.tp;
  const double bytes = copies * (job.tp - 1) / job.tp * job.hidden() * job.element();
  return {.per_pack = count * link.latency, .per_token = count * bytes * link.per_byte};
}

/// The time of a layer's collectives in one pass. Forward gathers the input of attention and of the
/// MLP and scatters their outputs; backward does the same with gradients, and gathers both inputs
/// again for the weights' gradients. Experts get the tokens themselves, in as many exchanges as an
/// MLP has collectives. A layer without another MLP has these exchanges in place of its
/// collectives.
EdgeTime layer_collectives(const LinkedJob& job, bool backward) {
  const double each = backward ? 3 : 2;
  const EdgeTime hidden =
      tensor_parallel_collectives(job, job.layer.dense_width > 0 ? 2 * each : each);
  const EdgeTime tokens = expert_exchanges(job, each);
  return {hidden.per_pack + tokens.per_pack, hidden.per_token + tokens.per_token};
}

/// Bytes of a token on one rank. Queries, or keys and values, leave; results come back.
struct TravelBytes {
  double query_sent, query_returned;
  double keys, gradients;  ///< of keys and values; what they get comes back, too
};

/// Forward sends Q; O comes back in the run's format with a log-sum-exp per head in fp32. Backward
/// sends dO, Q, O and the log-sum-exp; dQ comes back. Of keys and values gradients come back in the
/// accumulate type.
TravelBytes travel_bytes(const LinkedJob& job, bool backward) {
  const double q = static_cast<double>(job.layer.q_width()) / job.tp * job.element();
  const double out = static_cast<double>(job.layer.out_width()) / job.tp * job.element();
  const double lse = static_cast<double>(job.layer.num_heads) / job.tp * job.accumulator();
  const double keys = key_elements(job.layer, job.tp);
  if (!backward) return {q, out + lse, keys * job.element(), 0};
  return {q + 2 * out + lse, q, keys * job.element(), keys * job.accumulator()};
}

/// The replicas of a group of 2^k that share a node with each of its members, itself included.
double together(const LinkedJob& job, double group) {
  std::int64_t most = static_cast<std::int64_t>(group);
  while (most > 1 && !job.placement.holds_replicas(most)) most /= 2;
  return static_cast<double>(most);
}

/// Nanoseconds that a member takes to exchange rows with all others of a group.
struct GroupLinks {
  double latency = 0;   ///< of one way
  double per_byte = 0;  ///< of a byte of each token of the group, one way
  double slowest = 0;   ///< per byte of one message
};

/// One message after the other, to the members of the own node and to those of others.
GroupLinks straight_links(const LinkedJob& job, double group) {
  const double own = together(job, group);
  const Link inside = job.links.link(true), outside = job.links.link(false);
  const bool across = own < group;
  return {(own - 1) * inside.latency + (group - own) * outside.latency,
          ((own - 1) * inside.per_byte + (group - own) * outside.per_byte) / group,
          across ? outside.per_byte : inside.per_byte};
}

/// group − 1 messages to the next member. Where the group has several members on a node, one of
/// them sends to the next node: as many at a time as there are such groups.
GroupLinks ring_links(const LinkedJob& job, double group) {
  const double own = together(job, group);
  Link hop = job.links.link(true);
  if (own < group) {
    const LinkMap& links = job.links;
    const double senders = std::max(1.0, links.ranks_per_node / own);
    const double nics = std::max(1.0, links.nics_per_node / senders);  // of each
    hop = {links.nic_latency, links.nic_per_byte * std::max(1.0, senders / links.nics_per_node)};
    const double proxies = std::min(nics, own);
    // Messages follow each other: while one is dealt out, the one before crosses.
    if (job.context.route && proxies > 1)
      hop = {hop.latency + 2 * links.node_latency,
             std::max(hop.per_byte / proxies, (proxies - 1) / proxies * links.node_per_byte)};
  }
  return {(group - 1) * hop.latency, (group - 1) / group * hop.per_byte, hop.per_byte};
}

/// Adds the time that a group of replicas takes for messages in one pass of a layer, as
/// packflow/layer/context_attention.cpp runs it. Each message but the last results travels while
/// the member attends to rows that are there: in (group − 1)/group of its attention.
void add_travel(const LinkedJob& job, double group, bool backward, double pair_nanos,
                EdgeTime& exchange, Travel& travel) {
  const TravelBytes bytes = travel_bytes(job, backward);
  const CpCommType type = job.context.type;
  const GroupLinks links =
      type == CpCommType::kP2P ? ring_links(job, group) : straight_links(job, group);
  exchange.per_pack += 2 * links.latency;
  const double returned = type == CpCommType::kDirect ? bytes.query_returned : bytes.gradients;
  const double last = returned / group * links.slowest;
  if (type != CpCommType::kAllGather) exchange.per_token += last;
  travel = {.per_query = (bytes.query_sent + bytes.query_returned) * links.per_byte - last,
            .per_key = (bytes.keys + bytes.gradients) * links.per_byte,
            .hidden_per_pair = (group - 1) / group * pair_nanos / group};
  if (type != CpCommType::kDirect) travel.per_query = Travel::kNever;
  if (type == CpCommType::kAllGather) travel.hidden_per_pair = 0;
}

/// To the same coefficients of a MicroPack's time.
template <class Time>
void add(Time& time, const EdgeTime& more) {
  time.per_pack += more.per_pack;
  time.per_token += more.per_token;
}

/// Adds the links' time to the costs of one kind of layer.
void add_layer_links(const LinkedJob& job, LayerCosts& cost) {
  const auto pair_nanos = [](const PackCost& of_pass) {
    return of_pass.windowed() ? of_pass.per_window_pair : of_pass.per_pair;
  };
  add(cost.forward, layer_collectives(job, false));
  add(cost.backward, layer_collectives(job, true));
  double group = 2;
  for (MergeTime& merge : cost.merge) {
    add_travel(job, group, false, pair_nanos(cost.forward), merge.forward, merge.forward_travel);
    add_travel(job, group, true, pair_nanos(cost.backward), merge.backward, merge.backward_travel);
    group *= 2;
  }
}

/// Stage boundaries. Each of the tensor-parallel ranks sends its share of the tokens. Between two
/// other stages a rank sends to both, activations to one and gradients to the other, over one link.
void add_transfers(Costs& cost, const LinkedJob& job) {
  const Link link = job.links.link(job.placement.holds_stages());
  const double directions = job.placement.stages > 2 ? 2 : 1;
  cost.transfer.latency += link.latency;
  cost.transfer.per_byte += directions * link.per_byte / job.tp;
}

}  // namespace

double key_elements(const LayerShape& layer, double tp) {
  if (!layer.attends()) return 0;
  const double ways = std::min(tp, static_cast<double>(layer.num_kv_heads));
  return static_cast<double>(layer.k_width() + layer.v_width()) / ways;
}

void add_link_costs(Costs& cost, const HardwareSpec& links, const NodePlacement& placement,
                    const ContextParallel& context) {
  LinkedJob job{cost.shape, cost.shape.kinds.front(), cost.dtype, link_map(links), placement,
                context};
  for (std::size_t kind = 0; kind < cost.shape.kinds.size(); ++kind) {
    job.layer = cost.shape.kinds[kind];
    add_layer_links(job, cost.kinds[kind]);
  }
  // The embedding's rows are summed and scattered; backward gathers their gradients. The head's
  // input is gathered once for both passes, and its gradient is scattered once.
  add(cost.ends.embedding_forward, tensor_parallel_collectives(job, 1));
  add(cost.ends.embedding_backward, tensor_parallel_collectives(job, 1));
  add(cost.ends.head_backward, tensor_parallel_collectives(job, 2));
  add_transfers(cost, job);
  const Link reduction = reduction_link(job.links, placement);
  cost.reduction.latency += reduction.latency;
  cost.reduction.per_byte += reduction.per_byte;
  cost.host.ranks_per_node = links.ranks_per_node;
  cost.cp_comm_type = context.type;
  const Link inside = job.links.link(true);
  const Link between_replicas = job.links.link(placement.holds_replicas(placement.replicas));
  cost.row_moves = {std::max(inside.latency, between_replicas.latency), inside.per_byte,
                    job.links.link(false).per_byte};
}

Costs with_links(Costs measured, const HardwareSpec& links, std::int32_t most_replicas,
                 std::int32_t stages, const ContextParallel& context) {
  // No attention hides the time that an exchange takes of a member's processor.
  const auto compute = [](EdgeTime& exchange, const Travel& travel) {
    exchange.per_token += std::min(travel.per_query, travel.per_key);
  };
  const auto unhidden = [&](LayerCosts& cost) {
    for (MergeTime& merge : cost.merge) {
      compute(merge.forward, merge.forward_travel);
      compute(merge.backward, merge.backward_travel);
    }
  };
  for (LayerCosts& kind : measured.kinds) unhidden(kind);
  add_link_costs(measured, links, {links.ranks_per_node, measured.tp, stages, most_replicas},
                 context);
  return measured;
}

}  // namespace slimpack
