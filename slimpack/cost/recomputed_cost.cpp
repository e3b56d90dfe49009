#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/layer_widths.h"

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
Again again(const ModelShape& shape, Recompute recompute) {
  const auto h = static_cast<double>(shape.hidden_size);
  const double q = h * static_cast<double>(shape.q_width());
  const double k = h * static_cast<double>(shape.kv_width());
  const double output = q;
  const double gate_up = 2 * h * static_cast<double>(shape.intermediate_size);
  const double all = q + 2 * k + output + gate_up * 3 / 2;
  const double normalised = shape.qk_norm ? q + k : q;
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

/// Nanoseconds that a token's row of one layer takes to host memory or back.
double row_transfer(const Costs& cost) {
  const double bytes = cost.row_bytes > 0
                           ? cost.row_bytes
                           : static_cast<double>(LayerWidths(cost.shape, cost.dtype, cost.tp).row);
  return cost.host_per_byte * bytes;
}

/// The most of row_transfer that another layer hides.
double cover(const Costs& cost, Pass pass) {
  return (pass == Pass::kForward ? cost.forward : cost.backward).per_token;
}

}  // namespace

RecomputingCosts with_recompute(const Costs& cost, RecomputeByLayer recompute) {
  SLIMPACK_CHECK(recompute.empty() || std::ssize(recompute) == cost.shape.num_layers,
                 "policies of {} layers, the model has {}", recompute.size(),
                 cost.shape.num_layers);
  return {cost, std::move(recompute)};
}

RecomputingCosts with_recompute(const Costs& cost, Recompute everywhere) {
  return with_recompute(
      cost, RecomputeByLayer(static_cast<std::size_t>(cost.shape.num_layers), everywhere));
}

std::vector<Recompute> known_recomputations(const Costs& cost) {
  std::vector<Recompute> known(all_recomputations().begin(), all_recomputations().end());
  if (cost.host_per_byte == 0) std::erase(known, Recompute::kOffload);
  return known;
}

PackCost backward_time(const Costs& cost, Recompute recompute) {
  PackCost time = cost.backward;
  if (recompute == Recompute::kNothing) {
    time.per_pack -= cost.elementwise.per_pack;
    time.per_token -= cost.elementwise.per_token;
    return time;
  }
  const Again share = again(cost.shape, recompute);
  time.per_pack += share.pack * cost.forward.per_pack;
  time.per_token += share.linear * cost.forward.per_token;
  time.per_slice += share.attention * cost.forward.per_slice;
  time.per_pair += share.attention * cost.forward.per_pair;
  time.per_prefix_token += share.attention * cost.forward.per_prefix_token;
  if (recompute == Recompute::kOffload) time.per_token += exposed_transfer(cost, Pass::kBackward);
  return time;
}

double exposed_transfer(const Costs& cost, Pass pass) {
  return std::max(0.0, row_transfer(cost) - cover(cost, pass));
}

double uncovered_transfer(const Costs& cost, Pass pass, bool last_stage) {
  const double head = pass == Pass::kBackward && last_stage ? cost.head_backward.per_token : 0;
  return std::max(0.0, std::min(row_transfer(cost), cover(cost, pass)) - head);
}

bool attends_again(Recompute recompute) {
  return recompute == Recompute::kAttention || recompute == Recompute::kFull;
}

std::array<std::int32_t, kRecomputations> layers_by_recompute(const RecomputingCosts& cost,
                                                              const StageLayout& layout,
                                                              StageId stage) {
  std::array<std::int32_t, kRecomputations> counts{};
  const auto begin = static_cast<std::size_t>(layout.layer_begin[stage.index()]);
  const auto end = static_cast<std::size_t>(layout.layer_begin[stage.index() + 1]);
  for (std::size_t layer = begin; layer < end; ++layer)
    ++counts[static_cast<std::size_t>(recompute_of(cost.recompute, layer))];
  return counts;
}

}  // namespace slimpack
