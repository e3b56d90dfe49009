// State mixers: the kinds of layers that hand a state of constant size from token to token, and the
// figures that their costs follow from. Names are those of the families' papers. REQUIRES, of all:
// sizes and the widths that they make are at most kMaxWidth, so that no product overflows.
#pragma once

#include "slimpack/spec/layer_shape.h"

namespace slimpack {

/// Heads of keys (and queries) and of values, of so many dimensions each.
struct StateHeads {
  std::int64_t key_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_heads = 0;
  std::int64_t value_dim = 0;

  [[nodiscard]] std::int64_t keys() const { return key_heads * key_dim; }
  [[nodiscard]] std::int64_t values() const { return value_heads * value_dim; }
};

/// Gated delta net: each value head has a state of key_dim × value_dim and scalar gates. `kernel`:
/// tokens that the convolution of queries, keys and values sees.
[[nodiscard]] StateMixer gated_delta_net(std::int64_t hidden, const StateHeads& heads,
                                         std::int64_t kernel);

/// Kimi delta attention: a gated delta net whose decay is a vector. Its gates are maps of the
/// hidden state, or `low_rank`: pairs of maps of rank head_dim.
[[nodiscard]] StateMixer kimi_delta_attention(std::int64_t hidden, std::int64_t heads,
                                              std::int64_t head_dim, std::int64_t kernel,
                                              bool low_rank);

/// The biases and norms that families choose.
struct ScanVectors {
  bool convolution = true;  ///< the convolution's bias
  bool input = false;       ///< the bias of the map that comes first
  bool output = false;      ///< the bias of the map that comes last
  bool norm = false;        ///< Mamba-2: of what the state gives; Mamba: of step, B and C
};

/// Mamba-2: heads × head_dim channels, each with a state of `state` elements; B and C are shared by
/// the heads of a group.
[[nodiscard]] StateMixer mamba2(std::int64_t hidden, std::int64_t heads, std::int64_t head_dim,
                                std::int64_t groups, std::int64_t state, std::int64_t kernel,
                                const ScanVectors& vectors);

/// Mamba: `inner` channels, each with a state of `state` elements and a step that a map of this
/// rank gives.
[[nodiscard]] StateMixer mamba(std::int64_t hidden, std::int64_t inner, std::int64_t state,
                               std::int64_t rank, std::int64_t kernel, const ScanVectors& vectors);

/// A gated convolution of the hidden state's channels, without a recurrent state.
[[nodiscard]] StateMixer short_convolution(std::int64_t hidden, std::int64_t kernel, bool bias);

}  // namespace slimpack
