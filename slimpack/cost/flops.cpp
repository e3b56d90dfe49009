#include "slimpack/cost/cost_model.h"

namespace slimpack {

namespace {

constexpr double kMultiplyAdd = 2;
/// Each product Y = X·W has two in backward: dX = dY·Wᵀ and dW = Xᵀ·dY.
constexpr double kLinearBackward = 2;
/// Five products per pair (S again, dV, dP, dQ, dK) where forward has two (S, O).
constexpr double kAttentionBackward = 2.5;
constexpr double kModelAttentionBackward = 2;  // without computing S again

double forward_pair_flops(const ModelShape& shape) {
  // q·k and p·v, each over head_dim for every query head; grouped keys save bytes, not FLOPs.
  return 2 * kMultiplyAdd * static_cast<double>(shape.q_width());
}

}  // namespace

Flops layer_linear_flops(const ModelShape& shape, Tokens tokens, Pass pass) {
  const auto h = static_cast<double>(shape.hidden_size);
  const auto q = static_cast<double>(shape.q_width());
  const auto kv = static_cast<double>(shape.kv_width());
  const auto f = static_cast<double>(shape.intermediate_size);
  const double weights = h * q + 2 * h * kv + q * h + 3 * h * f;
  return Flops(kMultiplyAdd * weights * static_cast<double>(tokens.count()) *
               (pass == Pass::kBackward ? kLinearBackward : 1));
}

Flops layer_attention_flops(const ModelShape& shape, double pairs, Pass pass) {
  return Flops(forward_pair_flops(shape) * pairs *
               (pass == Pass::kBackward ? kAttentionBackward : 1));
}

Flops head_flops(const ModelShape& shape, Tokens tokens, Pass pass) {
  return Flops(kMultiplyAdd * static_cast<double>(shape.embedding_parameters()) *
               static_cast<double>(tokens.count()) *
               (pass == Pass::kBackward ? kLinearBackward : 1));
}

Flops model_flops(const ModelShape& shape, const SequenceLengths& lengths) {
  double pairs = 0;
  for (const Tokens length : lengths) {
    pairs += Slice{SequenceId(), Tokens(0), length}.causal_pairs();
  }
  const Tokens tokens = total_tokens(lengths);
  const Flops layer =
      layer_linear_flops(shape, tokens, Pass::kForward) * (1 + kLinearBackward) +
      layer_attention_flops(shape, pairs, Pass::kForward) * (1 + kModelAttentionBackward);
  return layer * static_cast<double>(shape.num_layers) +
         head_flops(shape, tokens, Pass::kForward) * (1 + kLinearBackward);
}

}  // namespace slimpack
