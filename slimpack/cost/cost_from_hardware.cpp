// The cost model from a hardware specification: FLOPs over speeds, bytes over bandwidths.
// docs/hardware.md says where each term comes from.
#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/cost/cost_model.h"

namespace slimpack {

namespace {

constexpr double kNanosPerSecond = 1e9;
constexpr double kNanosPerMicro = 1e3;
/// A link as one rank sees it, in nanoseconds.
struct Link {
  double latency = 0;
  double per_byte = 0;
};

/// The inputs of every term.
struct Job {
  const DecoderShape& shape;
  LayerShape layer;  ///< of the kind whose times are asked for
  Dtype dtype;
  const HardwareSpec& hardware;
  double tp;

  [[nodiscard]] double element() const { return static_cast<double>(element_bytes(dtype)); }
  [[nodiscard]] double accumulator() const { return static_cast<double>(accumulator_bytes(dtype)); }
  [[nodiscard]] double hidden() const { return static_cast<double>(shape.hidden_size); }
  [[nodiscard]] double nanos_per_memory_byte() const {
    return kNanosPerSecond / hardware.memory_bandwidth;
  }
  [[nodiscard]] Link network() const {
    return {hardware.link_latency_us * kNanosPerMicro,
            kNanosPerSecond / hardware.link_bytes_per_second};
  }
  /// The link between `ranks` neighbouring ranks.
  [[nodiscard]] Link link_of(double ranks) const {
    if (ranks > hardware.ranks_per_node) return network();
    return {hardware.node_link_latency_us * kNanosPerMicro,
            kNanosPerSecond / hardware.node_link_bytes_per_second};
  }
};

/// `count` all-gathers or reduce-scatters of a MicroPack's hidden states between tensor-parallel
/// ranks. Either one moves (tp − 1)/tp of the states into each rank.
EdgeTime tensor_parallel_collectives(const Job& job, double count) {
  if (job.tp == 1) return {};
  const Link link = job.link_of(job.tp);
  const double bytes = (job.tp - 1) / job.tp * job.hidden() * job.element();
  return {.per_pack = count * link.latency, .per_token = count * bytes * link.per_byte};
}

/// `count` all-to-alls that bring a MicroPack's tokens to their experts, which are spread over the
/// tensor-parallel ranks, or bring them back. A rank has 1/tp of the tokens and sends a copy for
/// each expert of a token; (tp − 1)/tp of them go to others.
EdgeTime expert_exchanges(const Job& job, double count) {
  if (job.tp == 1 || job.layer.experts == 0) return {};
  const Link link = job.link_of(job.tp);
  const double copies = static_cast<double>(job.layer.experts_per_token) / job.tp;
  const double bytes = copies * (job.tp - 1) / job.tp * job.hidden() * job.element();
  return {.per_pack = count * link.latency, .per_token = count * bytes * link.per_byte};
}

/// Of a layer in one pass. Forward gathers the input of attention and of the MLP and scatters their
/// outputs; backward does the same with gradients, and gathers both inputs again for the weights'
/// gradients. To experts the tokens themselves travel, as often; where a layer has no other MLP,
/// instead.
EdgeTime layer_collectives(const Job& job, bool backward) {
  const double each = backward ? 3 : 2;
  const EdgeTime hidden =
      tensor_parallel_collectives(job, job.layer.dense_width > 0 ? 2 * each : each);
  const EdgeTime tokens = expert_exchanges(job, each);
  return {hidden.per_pack + tokens.per_pack, hidden.per_token + tokens.per_token};
}

/// Bytes of a prefix token that one slice's attention moves in a layer. Forward reads K and V.
/// Backward reads them twice (for dQ, and for dK and dV), and reads and writes the accumulated dK
/// and dV. If there are more ranks than key heads, several ranks hold copies of one.
double prefix_token_bytes(const Job& job, Pass pass) {
  const double ways = std::min(job.tp, static_cast<double>(job.layer.num_kv_heads));
  const double elements = static_cast<double>(job.layer.k_width() + job.layer.v_width()) / ways;
  return elements *
         (pass == Pass::kBackward ? 2 * job.element() + 2 * job.accumulator() : job.element());
}

/// Nanoseconds per causal pair on one tensor-parallel rank, with 1/tp of the query heads.
double pair_nanos(const Job& job, Pass pass) {
  const HardwareSpec& h = job.hardware;
  const double speed =
      pass == Pass::kBackward ? h.attention_backward_flops : h.attention_forward_flops;
  return layer_attention_flops(job.layer, 1, pass).count() / speed * kNanosPerSecond / job.tp;
}

PackCost layer_cost(const Job& job, Pass pass) {
  const bool backward = pass == Pass::kBackward;
  const HardwareSpec& h = job.hardware;
  const double linear_flops = layer_linear_flops(job.layer, Tokens(1), pass).count();
  const double heads = static_cast<double>(job.layer.num_heads) / job.tp;
  // The time of a query token beyond its pairs grows from forward to backward as a pair's does.
  const double growth = pair_nanos(job, pass) / pair_nanos(job, Pass::kForward);
  const EdgeTime collectives = layer_collectives(job, backward);
  PackCost time;
  time.per_pack = (backward ? h.backward_overhead_us : h.forward_overhead_us) * kNanosPerMicro +
                  collectives.per_pack;
  time.per_slice = h.attention_slice_us * kNanosPerMicro;
  time.per_token = linear_flops / h.linear_flops * kNanosPerSecond / job.tp +
                   growth * h.attention_token_head_ns * heads + collectives.per_token;
  const double prefix = prefix_token_bytes(job, pass) * job.nanos_per_memory_byte();
  time.window = Tokens(job.layer.window);
  (time.windowed() ? time.per_window_pair : time.per_pair) = pair_nanos(job, pass);
  (time.windowed() ? time.per_window_prefix : time.per_prefix_token) = prefix;
  return time;
}

/// The products for weight gradients take the forward's FLOPs and four of the about sixteen
/// launches of a layer's backward. Collectives are not put off: the products for input gradients
/// gather what both need.
EdgeTime weight_gradient_time(const Job& job) {
  constexpr double kShareOfLaunches = 4.0 / 16;
  const HardwareSpec& h = job.hardware;
  const double flops = layer_linear_flops(job.layer, Tokens(1), Pass::kForward).count();
  return {.per_pack = kShareOfLaunches * h.backward_overhead_us * kNanosPerMicro,
          .per_token = flops / h.linear_flops * kNanosPerSecond / job.tp};
}

/// Norms read and write the hidden states twice; the activation reads gate and up and writes their
/// product. These are three of a layer's about sixteen launches. linear_flops already includes this
/// time, so it is capped at a small part of the products' time, whatever the bandwidth.
EdgeTime elementwise_time(const Job& job) {
  constexpr double kShareOfLaunches = 3.0 / 16;
  constexpr double kMostOfProducts = 0.1;
  const double numbers = 2 * static_cast<double>(job.layer.norms) * job.hidden() +
                         3 * static_cast<double>(job.layer.active_width());
  const double time = numbers * job.element() * job.nanos_per_memory_byte() / job.tp;
  const double products =
      layer_linear_flops(job.layer, Tokens(1), Pass::kBackward).count() / job.hardware.linear_flops;
  return {.per_pack = kShareOfLaunches * job.hardware.backward_overhead_us * kNanosPerMicro,
          .per_token = std::min(time, kMostOfProducts * products * kNanosPerSecond / job.tp)};
}

/// The first stage's lookup. Each tensor-parallel rank owns a part of the vocabulary, writes every
/// token's row (zeros for the others' words), and the rows are summed and scattered. Backward
/// gathers the rows' gradients and adds them to fp32 sums.
void set_embedding(Costs& cost, const Job& job) {
  const double row = job.hidden() * job.nanos_per_memory_byte();
  cost.embedding_forward = cost.embedding_backward = tensor_parallel_collectives(job, 1);
  cost.embedding_forward.per_token += 2 * job.element() * row;
  cost.embedding_backward.per_token += (job.element() + 2 * job.accumulator()) * row;
}

/// The last stage's head. Its forward runs inside the backward pass, so its input is gathered once
/// for both, and the input's gradient is scattered once.
void set_head(Costs& cost, const Job& job) {
  const Tokens one(1);
  const Flops flops =
      head_flops(job.shape, one, Pass::kForward) + head_flops(job.shape, one, Pass::kBackward);
  cost.head_backward = tensor_parallel_collectives(job, 2);
  cost.head_backward.per_pack += job.hardware.backward_overhead_us * kNanosPerMicro;
  cost.head_backward.per_token +=
      flops.count() / job.hardware.linear_flops * kNanosPerSecond / job.tp;
}

/// Queries travel, keys and values stay. Bytes of a token of the MicroPack, in one layer and on one
/// of the group's tensor-parallel ranks:
///   forward: Q in the run's format; O and its log-sum-exp per head in fp32;
///   backward: Q and dO in the run's format, the log-sum-exp and the row sums of dO·O per head in
///   fp32; dQ in fp32.
/// Of each, (group − 1)/group crosses the link. A pass has one gather and one scatter.
MergeTime merge_time(const Job& job, double group) {
  const Link link = job.link_of(group * job.tp);
  const double width =
      static_cast<double>(job.layer.q_width() + job.layer.out_width()) / 2 / job.tp;
  const double heads = static_cast<double>(job.layer.num_heads) / job.tp;
  const double forward_bytes = width * job.element() + (width + heads) * job.accumulator();
  const double backward_bytes = 2 * width * job.element() + (2 * heads + width) * job.accumulator();
  const double moved = (group - 1) / group * link.per_byte;
  return {.forward = {.per_pack = 2 * link.latency, .per_token = moved * forward_bytes},
          .backward = {.per_pack = 2 * link.latency, .per_token = moved * backward_bytes}};
}

/// AdamW reads the gradient, the weight and two moments and writes the last three, all of them
/// accumulators; bf16 weights are written besides: 28, 30 and 56 bytes in fp32, bf16 and fp64.
double optimizer_bytes(const Job& job) {
  const double copy = job.element() < job.accumulator() ? job.element() : 0;
  return 7 * job.accumulator() + copy;
}

LayerCosts kind_costs(const Job& job, std::int32_t most_replicas) {
  LayerCosts costs{.forward = layer_cost(job, Pass::kForward),
                   .backward = layer_cost(job, Pass::kBackward),
                   .elementwise = elementwise_time(job),
                   .weight_gradient = weight_gradient_time(job),
                   .merge = {}};
  for (std::int64_t group = 2; group <= most_replicas; group *= 2)
    costs.merge.push_back(merge_time(job, static_cast<double>(group)));
  return costs;
}

void require_divides(const DecoderShape& shape, std::int32_t tp) {
  if (tp < 1 || shape.num_heads % tp != 0)
    invalid_input("tp is {}, must divide the model's {} attention heads; use a divisor", tp,
                  shape.num_heads);
  for (const LayerShape& layer : shape.kinds)
    if (layer.experts % tp != 0)
      invalid_input(
          "tp is {}, must divide the model's {} experts, which are spread over so many "
          "ranks; use a divisor",
          tp, layer.experts);
}

}  // namespace

Costs cost_from_hardware(const DecoderShape& shape, Dtype dtype, const HardwareSpec& hardware,
                         std::int32_t tp, std::int32_t most_replicas) {
  require_divides(shape, tp);
  SLIMPACK_CHECK(most_replicas >= 1 && most_replicas <= 1 << 16, "{} replicas", most_replicas);
  Job job{shape, shape.layer(0), dtype, hardware, static_cast<double>(tp)};
  Costs cost;
  static_cast<LayerCosts&>(cost) = kind_costs(job, most_replicas);
  for (std::size_t kind = 1; kind < shape.num_kinds(); ++kind) {
    job.layer = shape.layer(kind);
    cost.more_kinds.push_back(kind_costs(job, most_replicas));
  }
  cost.source = hardware.name.empty() ? "hardware" : "hardware: " + hardware.name;
  cost.shape = shape;
  cost.dtype = dtype;
  cost.tp = tp;
  set_embedding(cost, job);
  set_head(cost, job);
  cost.optimizer_per_parameter = optimizer_bytes(job) * job.nanos_per_memory_byte() / job.tp;
  // A node holds replicas of one stage; the next stage is in another. Each of the tensor-parallel
  // ranks sends its share of the tokens.
  cost.transfer_latency = job.network().latency;
  cost.transfer_per_byte = job.network().per_byte / job.tp;
  // Every rank has a link of its own to the host.
  if (hardware.host_bandwidth > 0) cost.host_per_byte = kNanosPerSecond / hardware.host_bandwidth;
  const Link ring = job.link_of(static_cast<double>(most_replicas) * job.tp);
  cost.reduce_latency = ring.latency;
  cost.reduce_per_byte = ring.per_byte;
  cost.memory = hardware.memory_bytes;
  cost.peak_flops = hardware.peak_flops;
  cost.replicas_per_node = std::max(1, hardware.ranks_per_node / tp);
  return cost;
}

}  // namespace slimpack
