// The cost model from a hardware specification: FLOPs over speeds, bytes over bandwidths.
// docs/hardware.md says where each term comes from.
#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/hardware_job.h"
#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/link_costs.h"
#include "slimpack/cost/vocabulary_memory.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

namespace {

/// Bytes of a prefix token that one slice's attention moves in a layer. Forward reads K and V.
/// Backward reads them twice (for dQ, and for dK and dV), and reads and writes the accumulated dK
/// and dV.
double prefix_token_bytes(const HardwareJob& job, Pass pass) {
  return key_elements(job.layer, job.tp) *
         (pass == Pass::kBackward ? 2 * job.element() + 2 * job.accumulator() : job.element());
}

/// Nanoseconds per causal pair on one tensor-parallel rank, with 1/tp of the query heads.
double pair_nanos(const HardwareJob& job, Pass pass) {
  const HardwareSpec& h = job.hardware;
  const double speed =
      pass == Pass::kBackward ? h.attention_backward_flops : h.attention_forward_flops;
  return layer_attention_flops(job.layer, 1, pass).count() / speed * kNanosPerSecond / job.tp;
}

/// How much longer a pass takes than forward for a query token beyond its pairs: as much as it has
/// more work. The speeds of the two passes say how fast pairs are, and do not count here: else a
/// faster forward pass would make backward slower.
double growth(const HardwareJob& job, Pass pass) {
  if (!job.layer.attends()) return 0;
  return layer_attention_flops(job.layer, 1, pass).count() /
         layer_attention_flops(job.layer, 1, Pass::kForward).count();
}

/// Nanoseconds of a token with the layer's state. Kernels of scans take blocks of tokens: they have
/// up to twice the products, whose operands they move, and run at a small part of attention's
/// speed. docs/models.md says where the share comes from.
double state_nanos(const HardwareJob& job, Pass pass) {
  constexpr double kShareOfSpeed = 1.0 / 8;
  const HardwareSpec& h = job.hardware;
  const double speed =
      pass == Pass::kBackward ? h.attention_backward_flops : h.attention_forward_flops;
  return layer_state_flops(job.layer, Tokens(1), pass).count() / (kShareOfSpeed * speed) *
         kNanosPerSecond;
}

PackCost layer_cost(const HardwareJob& job, Pass pass) {
  const bool backward = pass == Pass::kBackward;
  const HardwareSpec& h = job.hardware;
  const double linear_flops = layer_linear_flops(job.layer, Tokens(1), pass).count();
  const double heads = static_cast<double>(job.layer.num_heads) / job.tp;
  PackCost time;
  time.per_pack = (backward ? h.backward_overhead_us : h.forward_overhead_us) * kNanosPerMicro +
                  job.reading(job.layer_weights()) +
                  (backward ? job.adding(job.layer_weights()) : 0);
  time.per_slice = h.attention_slice_us * kNanosPerMicro;
  time.per_token = linear_flops / h.linear_flops * kNanosPerSecond / job.tp +
                   growth(job, pass) * h.attention_token_head_ns * heads + state_nanos(job, pass);
  const double prefix = prefix_token_bytes(job, pass) * job.nanos_per_memory_byte();
  time.window = Tokens(job.layer.window);
  (time.windowed() ? time.per_window_pair : time.per_pair) = pair_nanos(job, pass);
  (time.windowed() ? time.per_window_prefix : time.per_prefix_token) = prefix;
  return time;
}

/// The products for weight gradients take the forward's FLOPs and four of the about sixteen
/// launches of a layer's backward. Collectives are not put off: the products for input gradients
/// gather what both need.
EdgeTime weight_gradient_time(const HardwareJob& job) {
  constexpr double kShareOfLaunches = 4.0 / 16;
  const HardwareSpec& h = job.hardware;
  const double flops = layer_linear_flops(job.layer, Tokens(1), Pass::kForward).count();
  return {.per_pack = kShareOfLaunches * h.backward_overhead_us * kNanosPerMicro +
                      job.adding(job.layer_weights()),
          .per_token = flops / h.linear_flops * kNanosPerSecond / job.tp};
}

/// Norms read and write the hidden states twice; the activation reads gate and up and writes their
/// product. These are three of a layer's about sixteen launches. linear_flops already includes this
/// time, so it is a part of the products' time: a byte takes as long as so many FLOPs of an H100
/// (linear_flops ÷ memory_bandwidth), and all bytes a small part at most. If it were found by the
/// bandwidth, layers that keep everything would save less with a faster memory, and take longer.
EdgeTime elementwise_time(const HardwareJob& job) {
  constexpr double kShareOfLaunches = 3.0 / 16;
  constexpr double kFlopsPerByte = 600e12 / 3.35e12;
  constexpr double kMostOfProducts = 0.1;
  const double numbers = 2 * static_cast<double>(job.layer.norms) * job.hidden() +
                         3 * static_cast<double>(job.layer.active_width());
  const double products = layer_linear_flops(job.layer, Tokens(1), Pass::kBackward).count();
  const double flops =
      std::min(numbers * job.element() * kFlopsPerByte, kMostOfProducts * products);
  return {.per_pack = kShareOfLaunches * job.hardware.backward_overhead_us * kNanosPerMicro,
          .per_token = flops / job.hardware.linear_flops * kNanosPerSecond / job.tp};
}

/// The first stage's lookup. Each tensor-parallel rank owns a part of the vocabulary, writes every
/// token's row (zeros for the others' words). Backward adds the rows' gradients to fp32 sums.
void set_embedding(Costs& cost, const HardwareJob& job) {
  const double row = job.hidden() * job.nanos_per_memory_byte();
  cost.ends.embedding_forward.per_token = 2 * job.element() * row;
  cost.ends.embedding_backward.per_token = (job.element() + 2 * job.accumulator()) * row;
}

double rows_of(Tokens block) {
  return static_cast<double>(block.count());
}

/// The part of the vocabulary that one tensor-parallel rank has.
std::int64_t words_of_rank(const HardwareJob& job) {
  return std::max<std::int64_t>(1, job.shape.vocab_size / job.placement.tensor);
}

/// The time of a block of the head, however few rows it has: it reads the matrix forward and
/// backward, and it reads and writes the sums of the matrix's gradient.
double block_nanos(const HardwareJob& job, HeadWeights head) {
  const auto weights = static_cast<double>(job.shape.embedding_parameters());
  return 2 * job.reading(weights) + (head == HeadWeights::kTrained ? job.adding(weights) : 0);
}

/// Sets the work that a group of replicas has in addition in one pass of a layer, as
/// packflow/layer/context_attention.cpp runs it.
///  - A member attends to its own keys with the queries of all members: to those of the slice and
///    to those of the prefix in a call each, where one replica alone has one call for both.
///  - So it reads its keys and values `group` times, and its kernel takes the rows of all members.
void set_merge_pass(const HardwareJob& job, double group, Pass pass, EdgeTime& exchange,
                    SliceTime& slice) {
  const HardwareSpec& h = job.hardware;
  const double heads = static_cast<double>(job.layer.num_heads) / job.tp;
  const double others = (group - 1) / group;
  exchange.per_token = others * growth(job, pass) * h.attention_token_head_ns * heads;
  slice.per_slice = (2 * group - 1) * h.attention_slice_us * kNanosPerMicro;
  const double prefix = others * prefix_token_bytes(job, pass) * job.nanos_per_memory_byte();
  (job.layer.window > 0 ? slice.per_window_prefix : slice.per_prefix_token) = prefix;
}

MergeTime merge_time(const HardwareJob& job, double group) {
  MergeTime time;
  set_merge_pass(job, group, Pass::kForward, time.forward, time.forward_slice);
  set_merge_pass(job, group, Pass::kBackward, time.backward, time.backward_slice);
  return time;
}

/// AdamW reads the gradient, the weight and two moments and writes the last three, all of them
/// accumulators; bf16 weights are written besides: 28, 30 and 56 bytes in fp32, bf16 and fp64.
double optimizer_bytes(const HardwareJob& job) {
  const double copy = job.element() < job.accumulator() ? job.element() : 0;
  return 7 * job.accumulator() + copy;
}

LayerCosts kind_costs(const HardwareJob& job, std::int32_t most_replicas) {
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

void require_divides(const Decoder& shape, std::int32_t tp) {
  for (const LayerShape& layer : shape.kinds) {
    if (tp > 1 && layer.has_state())
      invalid_input(
          "tp is {}, but layers with states run in slimpack.torch.pipeline, which has no tensor "
          "parallelism; use 1",
          tp);
    if (tp < 1 || layer.num_heads % tp != 0)
      invalid_input("tp is {}, must divide the model's {} attention heads; use a divisor", tp,
                    layer.num_heads);
    if (layer.experts % tp != 0)
      invalid_input(
          "tp is {}, must divide the model's {} experts, which are spread over so many "
          "ranks; use a divisor",
          tp, layer.experts);
  }
}

}  // namespace

/// Forward runs inside the backward pass, so the input is gathered once for both, and its gradient
/// is scattered once. Of a MicroPack's last block half is empty, on average. As in forward a weight
/// has a multiply-add in the input's gradient, and in its own.
EdgeTime head_time(const HardwareJob& job, HeadWeights weights) {
  const double products = weights == HeadWeights::kTrained ? 3 : 2;
  const double flops = head_flops(job.shape, Tokens(1), Pass::kForward).count() * products;
  const double block = block_nanos(job, weights);
  return {.per_pack = job.hardware.backward_overhead_us * kNanosPerMicro + block / 2,
          .per_token = flops / job.hardware.linear_flops * kNanosPerSecond / job.tp +
                       block / rows_of(head_block(words_of_rank(job), DeviceKind::kCuda))};
}

Costs cost_from_hardware(const Decoder& shape, Dtype dtype, const HardwareSpec& hardware,
                         std::int32_t tp, std::int32_t most_replicas, std::int32_t stages,
                         const ContextParallel& context) {
  require_divides(shape, tp);
  SLIMPACK_CHECK(most_replicas >= 1 && most_replicas <= 1 << 16, "{} replicas", most_replicas);
  SLIMPACK_CHECK(stages >= 1, "{} stages", stages);
  HardwareJob job{shape,
                  shape.kinds.front(),
                  dtype,
                  hardware,
                  {hardware.ranks_per_node, tp, stages, most_replicas}};
  Costs cost;
  cost.kinds.clear();
  for (const LayerShape& layer : shape.kinds) {
    job.layer = layer;
    cost.kinds.push_back(kind_costs(job, most_replicas));
  }
  cost.origin.source = hardware.name.empty() ? "hardware" : "hardware: " + hardware.name;
  cost.shape = shape;
  cost.dtype = dtype;
  cost.tp = tp;
  set_embedding(cost, job);
  cost.ends.head_backward = head_time(job, HeadWeights::kTrained);
  cost.optimizer_per_parameter = optimizer_bytes(job) * job.nanos_per_memory_byte() / job.tp;
  // Every rank has a link of its own to the host.
  if (hardware.host_bandwidth > 0) cost.host.per_byte = kNanosPerSecond / hardware.host_bandwidth;
  cost.host.memory = pinnable(hardware.host_memory_bytes);
  cost.device.memory = hardware.memory_bytes;
  cost.device.peak_flops = hardware.peak_flops;
  add_link_costs(cost, hardware, job.placement, context);
  const bool own = std::ranges::any_of(shape.kinds, &LayerShape::has_state);
  return own ? under_autograd(std::move(cost)) : cost;
}

Costs with_gpu(Costs cost, const HardwareSpec& hardware) {
  cost.device.gpu = gpu_memory(hardware);
  if (cost.autograd) return cost;  // no kernels of ours
  bool fused_head = true;
  for (std::size_t kind = 0; kind < cost.shape.kinds.size(); ++kind) {
    LayerWidths widths(cost.shape, kind, cost.dtype, cost.tp);
    widths.run_on(*cost.device.gpu);
    LayerCosts& layer = cost.kinds[kind];
    if (!widths.elementwise_again()) layer.elementwise = {};
    fused_head = fused_head && HeadMemory(widths, cost.shape.vocab_size, DeviceKind::kCuda).fused;
  }
  if (!fused_head) return cost;
  const HardwareJob job{
      cost.shape, cost.shape.kinds.front(), cost.dtype, hardware, {.tensor = cost.tp}};
  const std::int64_t own = words_of_rank(job);
  cost.ends.head_backward.per_token -=
      block_nanos(job, cost.trained ? HeadWeights::kFrozen : HeadWeights::kTrained) *
      (1 / rows_of(head_block(own, DeviceKind::kCuda)) - 1 / rows_of(fused_head_block(own)));
  return cost;
}

}  // namespace slimpack
