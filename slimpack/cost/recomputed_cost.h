// Recomputed cost: what backward takes of a layer that computes rows again, or offloads them.
#pragma once

#include <cstddef>
#include <span>

#include "slimpack/cost/cost_model.h"

namespace slimpack {

/// Backward time of a layer with this recomputation, from cost.backward:
///  - kAttention, kMlp and kFull add the forward's attention unless it is kept, the recomputed
///    products' share of what few rows cost in forward, and `again`. Where that is not known, it is
///    their share of the forward's linear time and of weight_reading, and the rest of its per-pack
///    time (half of it but for kFull);
///  - kNothing subtracts cost.elementwise;
///  - kOffload adds exposed_transfer.
[[nodiscard]] PackCost backward_time(const Costs& cost, Recompute recompute, std::size_t kind = 0);
/// The part of backward_time that a split backward may put off: cost.weight_gradient, because
/// recomputation precedes the input gradients. Where the layer offloads, input gradients take at
/// least as long as the rows that travel meanwhile.
[[nodiscard]] EdgeTime weight_gradient_time(const Costs& cost, Recompute recompute,
                                            std::size_t kind = 0);
/// Nanoseconds per token that a rank waits for the rows of one offloading layer. They travel while
/// another layer runs, and that layer's per_token time hides the transfer. Attention would hide
/// more, which is not counted.
[[nodiscard]] double exposed_transfer(const Costs& cost, Pass pass, std::size_t kind = 0);
/// Nanoseconds per token that a rank waits in addition if its stage's last layer offloads: the part
/// of the transfer that another layer would hide. No layer runs while forward sends these rows, nor
/// while backward fetches them. On the last stage the head's time hides the fetch.
[[nodiscard]] double uncovered_transfer(const Costs& cost, Pass pass, bool last_stage,
                                        std::size_t kind = 0);
/// Whether backward runs attention again. A merged MicroPack then repeats its exchange, too.
[[nodiscard]] bool attends_again(Recompute recompute);

/// Costs of which, with this policy in all layers, no layer costs more than with any of the allowed
/// ones, or a mixture of these.
struct CheapestCosts {
  Costs cost;
  Recompute policy;
};
[[nodiscard]] CheapestCosts cheapest_costs(const Costs& cost, std::span<const Recompute> allowed);

}  // namespace slimpack
