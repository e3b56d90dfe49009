// Abilities: what the runtime can do whose layers some costs are of.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/cost/cost_model.h"

namespace slimpack {

struct Abilities {
  /// A model's own layers run under autograd (slimpack.torch.pipeline), not PackFlow's. All from
  /// largest_merge on is then as it is by default.
  bool own_layers = false;
  /// The recomputations whose times the costs know.
  std::vector<Recompute> recomputations = {Recompute::kNothing, Recompute::kElementwise,
                                           Recompute::kFull};
  bool offloads_optimizer = false;  ///< its states may be in host memory
  std::int32_t largest_merge = 1;   ///< the largest group of replicas: a power of two
  bool spreads_vocabulary = false;
  std::vector<std::int32_t> zero = {1};  ///< what replicas can share out (ParallelGrid::zero)
  bool exchanges_attention = false;      ///< between ranks of a pipeline: no layer has a window
  /// Whether a policy says what a token keeps, whatever the plan. Otherwise it depends on the
  /// MicroPacks which graphs are kept.
  bool keeps_by_token = false;
  bool leaves_forwards = true;  ///< the last stage may leave a forward to its backward

  [[nodiscard]] bool knows(Recompute recompute) const;
};

[[nodiscard]] Abilities abilities(const Costs& cost);

}  // namespace slimpack
