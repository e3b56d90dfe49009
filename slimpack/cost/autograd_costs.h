// The costs of a run whose layers are a model's own, under autograd (slimpack.torch.pipeline),
// where they differ from the costs of a run of PackFlow's layers.
#pragma once

#include <vector>

#include "slimpack/cost/pack_cost.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// Bytes of a MicroPack, in the form of its times: per_pack + Σ slices (per_slice + …).
using PackBytes = PackCost;

/// A layer's pass from forward to backward, where its graph is kept between.
struct KeptGraph {
  PackCost forward;         ///< nanoseconds
  PackCost backward;        ///< nanoseconds
  PackBytes bytes;          ///< what forward leaves for backward, its output included
  PackBytes backward_peak;  ///< the peak of backward beyond its input, the graph and what it leaves

  bool operator==(const KeptGraph&) const = default;
};

/// A layer of one kind. LayerCosts::forward is that without a graph, LayerCosts::backward that
/// which runs the layer's forward again.
struct AutogradLayer {
  KeptGraph whole;         ///< Recompute::kNothing
  KeptGraph elementwise;   ///< Recompute::kElementwise: products and attention alone are kept
  PackBytes forward_peak;  ///< the peak of a forward without a graph beyond its input
  double kv_bytes = 0;     ///< of a token's keys and values, as the layer hands them to its cache
  double state_bytes = 0;  ///< of the states that a sequence has at a cut
  double state_gradient_bytes = 0;  ///< of these states' gradients

  [[nodiscard]] bool has_state() const { return state_bytes > 0; }
  /// REQUIRES: kNothing or kElementwise.
  [[nodiscard]] const KeptGraph& kept(Recompute recompute) const;
  bool operator==(const AutogradLayer&) const = default;
};

/// Bytes that a rank holds of each parameter; frozen ones have weights alone (Costs::trained).
struct StateBytes {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;  ///< on every replica, unless they share it out (Costs::shard_replicas)

  bool operator==(const StateBytes&) const = default;
};

/// The rules of that runtime:
///  - A stage whose layers are all of Recompute::kNothing or kElementwise keeps the graph of a
///    forward MicroPack where a backward MicroPack has the same slices. Layers of kElementwise keep
///    matrix products and attention of it; their backward computes the rest again.
///  - Everything else runs again (Recompute::kFull): from the stage's inputs, which are kept once
///    for all of its layers.
///  - Layers of kOffload run again, too. Their keys and values and the sums of these ones'
///  gradients
///    wait in host memory, as do the inputs of a stage that has such layers. Nothing hides their
///    way: a prefix comes for each slice that sees it; its sums come and return in backward. What a
///    slice leaves for later ones travels once and counts nothing.
///  - Keys and values are kept of the tokens that are in the prefix of some slice, of layers with a
///    window those that the slice sees; the sums of their gradients likewise, in the accumulate
///    type.
///  - States are kept where a slice begins: at backward slices' begins from forward until that
///    slice's backward, at those of forward slices alone until the next one has run. A sequence has
///    one set of their gradients, from its first backward slice with a prefix to its last.
///  - A forward pass runs layers with states once for each part of a slice between the begins of
///    backward slices, so they take their time of a slice as often.
///  - Without a graph the last stage runs forward only for slices whose keys and values (or
///    states) other slices need, and its last layer no further than these.
///  - There is one backward MicroPack's graph at a time beside those that are kept.
struct AutogradCosts {
  std::vector<AutogradLayer> layers;  ///< by kind
  /// Nanoseconds that a stage takes for a forward MicroPack beside its layers: positions, masks.
  /// Also of a forward that runs again.
  EdgeTime stage;
  EdgeTime head_peak;  ///< bytes of the head and the loss, beyond their input
  StateBytes state;

  bool operator==(const AutogradCosts&) const = default;
};

}  // namespace slimpack
