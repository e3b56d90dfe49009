#include "slimpack/cost/cost_model.h"

namespace slimpack {

namespace {

constexpr double kMultiplyAdd = 2;
/// Each product Y = X·W has two in backward: dX = dY·Wᵀ and dW = Xᵀ·dY.
constexpr double kLinearBackward = 2;
/// Five products per pair (S again, dV, dP, dQ, dK) where forward has two (S, O).
constexpr double kAttentionBackward = 2.5;
constexpr double kModelAttentionBackward = 2;  // without computing S again

double forward_pair_flops(const LayerShape& layer) {
  // q·k and p·v for every query head; grouped keys save bytes, not FLOPs.
  return kMultiplyAdd * static_cast<double>(layer.q_width() + layer.out_width());
}

/// Query–key pairs of all sequences in a layer.
double pairs_of(const LayerShape& layer, const SequenceLengths& lengths) {
  double pairs = 0;
  for (const Tokens length : lengths) {
    const Slice whole{SequenceId(), Tokens(0), length};
    pairs += layer.window > 0 ? whole.window_pairs(Tokens(layer.window)) : whole.causal_pairs();
  }
  return pairs;
}

}  // namespace

Flops layer_linear_flops(const LayerShape& layer, Tokens tokens, Pass pass) {
  return Flops(kMultiplyAdd * static_cast<double>(layer.active_weights()) *
               static_cast<double>(tokens.count()) *
               (pass == Pass::kBackward ? kLinearBackward : 1));
}

Flops layer_attention_flops(const LayerShape& layer, double pairs, Pass pass) {
  return Flops(forward_pair_flops(layer) * pairs *
               (pass == Pass::kBackward ? kAttentionBackward : 1));
}

Flops head_flops(const Decoder& shape, Tokens tokens, Pass pass) {
  return Flops(kMultiplyAdd * static_cast<double>(shape.embedding_parameters()) *
               static_cast<double>(tokens.count()) *
               (pass == Pass::kBackward ? kLinearBackward : 1));
}

std::optional<double> mfu_of(Flops flops, Nanos time, std::int64_t ranks, double peak_flops) {
  if (peak_flops <= 0) return std::nullopt;
  return flops.count() / (to_seconds(time) * static_cast<double>(ranks) * peak_flops);
}

Flops model_flops(const Decoder& shape, const SequenceLengths& lengths) {
  const Tokens tokens = total_tokens(lengths);
  const auto layers = shape.count_kinds(0, static_cast<std::size_t>(shape.num_layers()));
  Flops sum;
  for (std::size_t kind = 0; kind < layers.size(); ++kind) {
    const LayerShape& shape_of_kind = shape.kinds[kind];
    const Flops layer =
        layer_linear_flops(shape_of_kind, tokens, Pass::kForward) * (1 + kLinearBackward) +
        layer_attention_flops(shape_of_kind, pairs_of(shape_of_kind, lengths), Pass::kForward) *
            (1 + kModelAttentionBackward);
    sum = sum + layer * static_cast<double>(layers[kind]);
  }
  return sum + head_flops(shape, tokens, Pass::kForward) * (1 + kLinearBackward);
}

}  // namespace slimpack
