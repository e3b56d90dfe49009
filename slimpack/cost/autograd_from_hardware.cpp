// Layers under autograd, from a hardware specification: times are those of the same layers in
// PackFlow, bytes follow from the widths. slimpack.torch.estimate counts the bytes of the model's
// own layers instead (docs/models.md says how far these are off).
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "slimpack/cost/hardware_job.h"

namespace slimpack {
namespace {

constexpr std::int64_t kLogitsAtOnce = std::int64_t{1} << 29;  // on GPUs (pipeline/loss.py)

double real(std::int64_t count) {
  return static_cast<double>(count);
}

/// Elements of a token in one part of a layer.
struct PartElements {
  double kept = 0;      ///< what a graph keeps
  double products = 0;  ///< of these, results of matrix products and of attention
  double most = 0;      ///< what is there at a time where nothing is kept
};

PartElements attention_elements(const LayerShape& s) {
  if (!s.attends()) return {};
  const double qk = real(s.q_width() + s.k_width());
  const double latents = real(s.q_rank + s.kv_rank + s.shared_key_dim);
  const double gate = real(s.gate_width);
  const double products = qk + real(s.v_width() + s.out_width() + s.hidden_size) + gate + latents;
  return {products + qk + latents + (gate > 0 ? gate + real(s.out_width()) : 0), products,
          products + qk};
}

/// Half of what a state's part keeps are results of products.
PartElements state_elements(const LayerShape& s) {
  if (!s.has_state()) return {};
  const double rows = real(s.state.rows), hidden = real(s.hidden_size);
  return {rows + hidden, rows / 2 + hidden, rows + hidden};
}

/// Tokens are copied for each of their experts, and come back.
PartElements mlp_elements(const LayerShape& s) {
  const double width = real(s.active_width());
  if (width == 0) return {};
  const double hidden = real(s.hidden_size);
  const double copies = 2 * real(s.experts_per_token) * hidden + 2 * real(s.experts);
  const double products = (s.gated ? 2 : 1) * width + hidden + copies;
  return {products + 2 * width, products, products + 2 * width};
}

/// Elements of the largest parameter, whose gradient is there before it is added to the sum.
double largest_parameter(const LayerShape& s) {
  const std::int64_t input = s.expert_latent > 0 ? s.expert_latent : s.hidden_size;
  const std::int64_t maps = s.gated ? 2 : 1;
  return real(std::max({s.hidden_size * (s.q_width() + s.gate_width), s.hidden_size * s.dense_width,
                        maps * s.experts * s.expert_width * input, s.state.weights / 2}));
}

AutogradLayer layer_bytes(const LayerShape& s, Dtype dtype) {
  const auto element = static_cast<double>(element_bytes(dtype));
  const auto accumulator = static_cast<double>(accumulator_bytes(dtype));
  const std::array<PartElements, 3> parts{attention_elements(s), state_elements(s),
                                          mlp_elements(s)};
  const double norms = 2 * real(s.norms * s.hidden_size);
  PartElements all{norms, 0, 0};
  for (const PartElements& part : parts)
    all = {all.kept + part.kept, all.products + part.products, std::max(all.most, part.most)};
  const auto bytes = [&](double of_pack, double of_token) {
    return PackBytes{
        .per_pack = element * of_pack, .per_token = element * of_token, .window = Tokens(s.window)};
  };
  AutogradLayer layer;
  const PackBytes peak = bytes(largest_parameter(s), 2 * all.most);
  layer.whole.bytes = bytes(0, all.kept);
  layer.whole.backward_peak = peak;
  layer.elementwise.bytes = bytes(0, all.products);
  layer.elementwise.backward_peak = peak + bytes(0, all.kept - all.products);
  layer.forward_peak = bytes(0, all.most);
  layer.kv_bytes = element * real(s.k_width() + s.v_width());
  layer.state_bytes = accumulator * real(s.state.recurrent) + element * real(s.state.convolved);
  layer.state_gradient_bytes = accumulator * real(s.state.recurrent + s.state.convolved);
  return layer;
}

LayerShape counted_layer(const LayerShape& s) {
  LayerShape counted{.hidden_size = s.hidden_size};
  counted.num_heads = counted.num_kv_heads = s.attends() ? 1 : 0;
  counted.head_dim = s.q_width();
  counted.value_dim = s.out_width();
  counted.window = s.window;
  counted.state.multiplied = s.state.multiplied;
  counted.counted_parameters = s.parameters();
  counted.counted_weights = s.active_weights();
  return counted;
}

Decoder counted_shape(Decoder shape) {
  const std::int64_t matrix = shape.embedding_parameters();
  shape.edges = {matrix, matrix + shape.hidden_size(), shape.tie_embeddings ? matrix : 0};
  shape.tie_embeddings = false;
  for (LayerShape& layer : shape.kinds) layer = counted_layer(layer);
  return shape;
}

/// The gradient of the head's weights, as it comes and as it is summed, and a block of logits; rows
/// and their gradients.
EdgeTime head_bytes(const Decoder& shape, Dtype dtype) {
  const auto element = static_cast<double>(element_bytes(dtype));
  const auto accumulator = static_cast<double>(accumulator_bytes(dtype));
  return {.per_pack = real(shape.embedding_parameters()) * (element + accumulator) +
                      real(kLogitsAtOnce) * element,
          .per_token = 2 * real(shape.hidden_size()) * element};
}

}  // namespace

Costs under_autograd(Costs cost) {
  const auto element = static_cast<double>(element_bytes(cost.dtype));
  const auto accumulator = static_cast<double>(accumulator_bytes(cost.dtype));
  AutogradCosts own;
  own.layers.reserve(cost.kinds.size());
  for (std::size_t kind = 0; kind < cost.kinds.size(); ++kind) {
    LayerCosts& layer = cost.kinds[kind];
    AutogradLayer& kept = own.layers.emplace_back(layer_bytes(cost.shape.kinds[kind], cost.dtype));
    PackCost without = layer.backward;  // computing elementwise results again
    without.per_pack = std::max(0.0, without.per_pack - layer.elementwise.per_pack);
    without.per_token = std::max(0.0, without.per_token - layer.elementwise.per_token);
    kept.whole.forward = kept.elementwise.forward = layer.forward;
    kept.whole.backward = without;
    kept.elementwise.backward = layer.backward;
    layer = {.forward = layer.forward, .backward = layer.forward + without};
  }
  own.head_peak = head_bytes(cost.shape, cost.dtype);
  own.state = {element, accumulator, 2 * accumulator + (element < accumulator ? accumulator : 0)};
  cost.shape = counted_shape(std::move(cost.shape));
  cost.autograd = std::move(own);
  return cost;
}

}  // namespace slimpack
