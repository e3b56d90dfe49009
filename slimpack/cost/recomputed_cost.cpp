#include "slimpack/cost/recomputed_cost.h"

#include <algorithm>

#include "slimpack/cost/layer_memory.h"

namespace slimpack {
namespace {

/// The recomputation in backward, as shares of the forward's terms.
struct Again {
  double pack = 0;
  double linear = 0;
  double attention = 0;
};

/// Backward never needs the results of the down and value projections again. It needs keys again
/// only with q/k norms, because rows do not keep them as they were before the norm. It needs the
/// output projection's result only to compute the MLP behind it again.
Again again(const LayerShape& layer, Recompute recompute) {
  const auto q = static_cast<double>(layer.q_weights());
  const auto kv = static_cast<double>(layer.kv_weights());
  const auto output = static_cast<double>(layer.out_width() * layer.hidden_size);
  const double gate_up = 2.0 * static_cast<double>(layer.hidden_size * layer.active_width());
  const auto all = static_cast<double>(layer.active_weights());
  // Keys that come from latents are a product, as values are.
  const double k = layer.kv_rank > 0 ? kv : kv / 2;
  const double normalised = layer.qk_norm != QkNorm::kNone ? q + k : q;
  switch (recompute) {
    case Recompute::kNothing:
    case Recompute::kElementwise:
    case Recompute::kOffload:
      return {};
    case Recompute::kAttention:
      return {0.5, normalised / all, 1};
    case Recompute::kMlp:
      return {0.5, gate_up / all, 0};
    case Recompute::kFull:
      return {1, (normalised + output + gate_up) / all, 1};
  }
  return {};
}

/// The time of the products that backward computes again.
EdgeTime products_again(const LayerCosts& layer, Recompute recompute, const Again& share) {
  if (layer.again) {
    if (recompute == Recompute::kAttention) return layer.again->attention;
    if (recompute == Recompute::kMlp) return layer.again->mlp;
    if (recompute == Recompute::kFull) return layer.again->full;
  }
  return {share.pack * (layer.forward.per_pack - layer.weight_reading) +
              share.linear * layer.weight_reading,
          share.linear * layer.forward.per_token};
}

/// Nanoseconds that a token's row of one layer takes to host memory or back.
double row_transfer(const Costs& cost, std::size_t kind) {
  const LayerWidths widths(cost.shape, kind, cost.dtype, cost.tp);
  const double bytes = cost.row_bytes > 0 ? cost.row_bytes : static_cast<double>(widths.row());
  return cost.host.per_byte * bytes;
}

/// The most of row_transfer that another layer hides.
double cover(const LayerCosts& layer, Pass pass) {
  return (pass == Pass::kForward ? layer.forward : layer.backward).per_token;
}

/// Graphs of kNothing that cost no more than those of the allowed recomputations, nor more than
/// running forward again, which MicroPacks without a pair do: measurements may say otherwise of a
/// term. Where a forward is left to its backward, that backward has both.
Costs cheapest_graphs(Costs cost, std::span<const Recompute> allowed) {
  for (std::size_t kind = 0; kind < cost.shape.kinds.size(); ++kind) {
    const LayerCosts& again = cost.kinds[kind];
    AutogradLayer& layer = cost.autograd->layers[kind];
    PackCost forward = again.forward, backward = again.backward;
    for (const Recompute recompute : allowed) {
      if (recompute == Recompute::kFull || recompute == Recompute::kOffload) continue;
      forward = smaller_terms(forward, layer.kept(recompute).forward);
      backward = smaller_terms(backward, layer.kept(recompute).backward);
    }
    layer.whole.forward = smaller_terms(forward, again.backward + (-1.0) * backward);
    layer.whole.backward = backward;
  }
  return cost;
}

}  // namespace

PackCost backward_time(const Costs& cost, Recompute recompute, std::size_t kind) {
  const LayerCosts& layer = cost.kinds[kind];
  PackCost time = layer.backward;
  if (recompute == Recompute::kNothing) {
    time.per_pack -= layer.elementwise.per_pack;
    time.per_token -= layer.elementwise.per_token;
    return time;
  }
  const Again share = again(cost.shape.kinds[kind], recompute);
  const EdgeTime products = products_again(layer, recompute, share);
  time.per_pack += products.per_pack;
  time.per_token += products.per_token;
  time.per_missing_row += share.linear * layer.forward.per_missing_row;
  time.per_slice += share.attention * layer.forward.per_slice;
  time.per_pair += share.attention * layer.forward.per_pair;
  time.per_prefix_token += share.attention * layer.forward.per_prefix_token;
  time.per_window_pair += share.attention * layer.forward.per_window_pair;
  time.per_window_prefix += share.attention * layer.forward.per_window_prefix;
  if (recompute == Recompute::kOffload)
    time.per_token += exposed_transfer(cost, Pass::kBackward, kind);
  return time;
}

EdgeTime weight_gradient_time(const Costs& cost, Recompute recompute, std::size_t kind) {
  const LayerCosts& layer = cost.kinds[kind];
  EdgeTime time = layer.weight_gradient;
  if (recompute == Recompute::kOffload)
    time.per_token =
        std::clamp(cover(layer, Pass::kBackward) - row_transfer(cost, kind), 0.0, time.per_token);
  return time;
}

double exposed_transfer(const Costs& cost, Pass pass, std::size_t kind) {
  return std::max(0.0, row_transfer(cost, kind) - cover(cost.kinds[kind], pass));
}

double uncovered_transfer(const Costs& cost, Pass pass, bool last_stage, std::size_t kind) {
  const double head = pass == Pass::kBackward && last_stage ? cost.ends.head().per_token : 0;
  const double covered = cover(cost.kinds[kind], pass);
  return std::max(0.0, std::min(row_transfer(cost, kind), covered) - head);
}

bool attends_again(Recompute recompute) {
  return recompute == Recompute::kAttention || recompute == Recompute::kFull;
}

CheapestCosts cheapest_costs(const Costs& cost, std::span<const Recompute> allowed) {
  const Recompute least = *std::min_element(allowed.begin(), allowed.end());
  if (!cost.autograd) {
    if (allowed.size() == 1) return {cost, least};
    // No term of kNothing is larger than one of kElementwise, nor that than one of any other.
    return {cost, std::min(least, Recompute::kElementwise)};
  }
  if (least >= Recompute::kFull) return {cost, Recompute::kFull};
  return {cheapest_graphs(cost, allowed), Recompute::kNothing};
}

}  // namespace slimpack
