// The cost model from a hardware specification: FLOPs over speeds, bytes over bandwidths.
// docs/hardware.md says where each term comes from.
#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/memory_model.h"
#include "slimpack/cost/node_placement.h"

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
  NodePlacement placement;
  double tp = placement.tensor;

  [[nodiscard]] double element() const { return static_cast<double>(element_bytes(dtype)); }
  [[nodiscard]] double accumulator() const { return static_cast<double>(accumulator_bytes(dtype)); }
  [[nodiscard]] double hidden() const { return static_cast<double>(shape.hidden_size); }
  [[nodiscard]] double nanos_per_memory_byte() const {
    return kNanosPerSecond / hardware.memory_bandwidth;
  }
  [[nodiscard]] Link link(bool in_node) const {
    return in_node ? Link{hardware.node_link_latency_us * kNanosPerMicro,
                          kNanosPerSecond / hardware.node_link_bytes_per_second}
                   : Link{hardware.link_latency_us * kNanosPerMicro,
                          kNanosPerSecond / hardware.link_bytes_per_second};
  }
  /// Products read their weights once for all rows of a MicroPack, however few there are. That adds
  /// as much time as linear_half_rows rows take: half of the full rate at so many rows, all of it
  /// at many. `weights`: elements, of all tensor-parallel ranks.
  [[nodiscard]] double reading(double weights) const {
    return hardware.linear_half_rows * 2 * weights / hardware.linear_flops * kNanosPerSecond / tp;
  }
  /// The same of products that read and write the sums of the weights' gradients.
  [[nodiscard]] double adding(double weights) const {
    return reading(weights) * 2 * accumulator() / element();
  }
  /// Those of the layer's experts are all read.
  [[nodiscard]] double layer_weights() const { return static_cast<double>(layer.parameters()); }
};

/// `count` all-gathers or reduce-scatters of a MicroPack's hidden states between tensor-parallel
/// ranks. Either one moves (tp − 1)/tp of the states into each rank.
EdgeTime tensor_parallel_collectives(const Job& job, double count) {
  if (job.tp == 1) return {};
  const Link link = job.link(job.placement.holds_tensor());
  const double bytes = (job.tp - 1) / job.tp * job.hidden() * job.element();
  return {.per_pack = count * link.latency, .per_token = count * bytes * link.per_byte};
}

/// `count` all-to-alls that bring a MicroPack's tokens to their experts, which are spread over the
/// tensor-parallel ranks, or bring them back. A rank has 1/tp of the tokens and sends a copy for
/// each expert of a token; (tp − 1)/tp of them go to others.
EdgeTime expert_exchanges(const Job& job, double count) {
  if (job.tp == 1 || job.layer.experts == 0) return {};
  const Link link = job.link(job.placement.holds_tensor());
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

/// Numbers of a token's keys and values on one rank. If there are more ranks than key heads,
/// several ranks hold copies of one.
double key_elements(const Job& job) {
  const double ways = std::min(job.tp, static_cast<double>(job.layer.num_kv_heads));
  return static_cast<double>(job.layer.k_width() + job.layer.v_width()) / ways;
}

/// Bytes of a prefix token that one slice's attention moves in a layer. Forward reads K and V.
/// Backward reads them twice (for dQ, and for dK and dV), and reads and writes the accumulated dK
/// and dV.
double prefix_token_bytes(const Job& job, Pass pass) {
  return key_elements(job) *
         (pass == Pass::kBackward ? 2 * job.element() + 2 * job.accumulator() : job.element());
}

/// Nanoseconds per causal pair on one tensor-parallel rank, with 1/tp of the query heads.
double pair_nanos(const Job& job, Pass pass) {
  const HardwareSpec& h = job.hardware;
  const double speed =
      pass == Pass::kBackward ? h.attention_backward_flops : h.attention_forward_flops;
  return layer_attention_flops(job.layer, 1, pass).count() / speed * kNanosPerSecond / job.tp;
}

/// How much longer a pass takes than forward for a query token beyond its pairs: as for a pair.
double growth(const Job& job, Pass pass) {
  return pair_nanos(job, pass) / pair_nanos(job, Pass::kForward);
}

PackCost layer_cost(const Job& job, Pass pass) {
  const bool backward = pass == Pass::kBackward;
  const HardwareSpec& h = job.hardware;
  const double linear_flops = layer_linear_flops(job.layer, Tokens(1), pass).count();
  const double heads = static_cast<double>(job.layer.num_heads) / job.tp;
  const EdgeTime collectives = layer_collectives(job, backward);
  PackCost time;
  time.per_pack = (backward ? h.backward_overhead_us : h.forward_overhead_us) * kNanosPerMicro +
                  job.reading(job.layer_weights()) +
                  (backward ? job.adding(job.layer_weights()) : 0) + collectives.per_pack;
  time.per_slice = h.attention_slice_us * kNanosPerMicro;
  time.per_token = linear_flops / h.linear_flops * kNanosPerSecond / job.tp +
                   growth(job, pass) * h.attention_token_head_ns * heads + collectives.per_token;
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
  return {.per_pack = kShareOfLaunches * h.backward_overhead_us * kNanosPerMicro +
                      job.adding(job.layer_weights()),
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
/// for both, and the input's gradient is scattered once. It runs in blocks of rows, and each block
/// reads the matrix forward and backward and reads and writes the sums of its gradient. Of a
/// MicroPack's last block half is empty, on average.
void set_head(Costs& cost, const Job& job) {
  const Tokens one(1);
  const Flops flops =
      head_flops(job.shape, one, Pass::kForward) + head_flops(job.shape, one, Pass::kBackward);
  ModelShape own = job.shape;
  own.vocab_size = std::max<std::int64_t>(1, own.vocab_size / job.placement.tensor);
  const auto rows = static_cast<double>(head_block(own, DeviceKind::kCuda).count());
  const auto weights = static_cast<double>(job.shape.embedding_parameters());
  const double block = 2 * job.reading(weights) + job.adding(weights);
  cost.head_backward = tensor_parallel_collectives(job, 2);
  cost.head_backward.per_pack += job.hardware.backward_overhead_us * kNanosPerMicro + block / 2;
  cost.head_backward.per_token +=
      flops.count() / job.hardware.linear_flops * kNanosPerSecond / job.tp + block / rows;
}

/// Of a token's keys and values. Backward their gradients come back in the accumulate type.
double travelling_key_bytes(const Job& job, Pass pass) {
  return key_elements(job) * (job.element() + (pass == Pass::kBackward ? job.accumulator() : 0));
}

/// What a member sends for a token and gets back.
struct TravelBytes {
  double sent, returned;
};

/// What a group of replicas pays in one pass of a layer, as packflow/layer/context_attention.cpp
/// runs it. Queries travel; or keys and values do, where they have fewer bytes.
///  - A member sends its queries to the group − 1 others and gets as many results back, one message
///    after the other. Of `queries` (group − 1)/group crosses the link for each token of the
///    MicroPack, and of keys as much for each token so far.
///  - Each message but the last one travels while the member attends to the rows of another member:
///    in (group − 1)/group of its attention. The last results come after it.
///  - A member attends to its own keys with the queries of all members: to those of the slice and
///    to those of the prefix in a call each, where one replica alone has one call for both.
///  - So it reads its keys and values `group` times, and its kernel takes the rows of all members.
void set_merge_pass(const Job& job, double group, Pass pass, const TravelBytes& queries,
                    EdgeTime& exchange, SliceTime& slice, Travel& travel) {
  const Link link = job.link(job.placement.holds_replicas(static_cast<std::int64_t>(group)));
  const HardwareSpec& h = job.hardware;
  const double heads = static_cast<double>(job.layer.num_heads) / job.tp;
  const double others = (group - 1) / group;
  const double last = queries.returned / group * link.per_byte;
  exchange.per_pack = 2 * (group - 1) * link.latency;
  exchange.per_token = others * growth(job, pass) * h.attention_token_head_ns * heads + last;
  slice.per_slice = (2 * group - 1) * h.attention_slice_us * kNanosPerMicro;
  const double prefix = others * prefix_token_bytes(job, pass) * job.nanos_per_memory_byte();
  (job.layer.window > 0 ? slice.per_window_prefix : slice.per_prefix_token) = prefix;
  travel.per_query = others * (queries.sent + queries.returned) * link.per_byte - last;
  travel.per_key = others * travelling_key_bytes(job, pass) * link.per_byte;
  travel.hidden_per_pair = others * pair_nanos(job, pass) / group;
}

/// Forward sends Q; O comes back in the run's format with a log-sum-exp per head in fp32. Backward
/// sends dO, Q, O and the log-sum-exp; dQ comes back.
MergeTime merge_time(const Job& job, double group) {
  const double q = static_cast<double>(job.layer.q_width()) / job.tp * job.element();
  const double out = static_cast<double>(job.layer.out_width()) / job.tp * job.element();
  const double lse = static_cast<double>(job.layer.num_heads) / job.tp * job.accumulator();
  MergeTime time;
  set_merge_pass(job, group, Pass::kForward, {q, out + lse}, time.forward, time.forward_slice,
                 time.forward_travel);
  set_merge_pass(job, group, Pass::kBackward, {q + 2 * out + lse, q}, time.backward,
                 time.backward_slice, time.backward_travel);
  return time;
}

/// Stage boundaries. Each of the tensor-parallel ranks sends its share of the tokens. Between two
/// other stages a rank sends to both, activations to one and gradients to the other, over one link.
void set_transfers(Costs& cost, const Job& job) {
  const Link link = job.link(job.placement.holds_stages());
  const double directions = job.placement.stages > 2 ? 2 : 1;
  cost.transfer_latency = link.latency;
  cost.transfer_per_byte = directions * link.per_byte / job.tp;
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
                   .weight_reading = job.reading(job.layer_weights()),
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
                         std::int32_t tp, std::int32_t most_replicas, std::int32_t stages) {
  require_divides(shape, tp);
  SLIMPACK_CHECK(most_replicas >= 1 && most_replicas <= 1 << 16, "{} replicas", most_replicas);
  SLIMPACK_CHECK(stages >= 1, "{} stages", stages);
  Job job{
      shape, shape.layer(0), dtype, hardware, {hardware.ranks_per_node, tp, stages, most_replicas}};
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
  set_transfers(cost, job);
  // Every rank has a link of its own to the host.
  if (hardware.host_bandwidth > 0) cost.host_per_byte = kNanosPerSecond / hardware.host_bandwidth;
  cost.host_memory = pinnable(hardware.host_memory_bytes);
  const Link between_replicas = job.link(job.placement.holds_replicas(most_replicas));
  cost.reduce_latency = between_replicas.latency;
  cost.reduce_per_byte = between_replicas.per_byte;
  cost.memory = hardware.memory_bytes;
  cost.peak_flops = hardware.peak_flops;
  cost.ranks_per_node = hardware.ranks_per_node;
  return cost;
}

}  // namespace slimpack
