#include "slimpack/base/error.h"
#include "slimpack/cost/cost_model.h"

namespace slimpack {
namespace {

/// What backward computes again, as shares of the forward's terms.
struct Again {
  double pack = 0;
  double linear = 0;
  double attention = 0;
};

/// The down projection's and the key and value projections' results are never needed again; the
/// output projection's only to find what followed it.
Again again(const ModelShape& shape, Recompute recompute) {
  const auto h = static_cast<double>(shape.hidden_size);
  const double q = h * static_cast<double>(shape.q_width());
  const double kv = 2 * h * static_cast<double>(shape.kv_width());
  const double output = q;
  const double gate_up = 2 * h * static_cast<double>(shape.intermediate_size);
  const double all = q + kv + output + gate_up * 3 / 2;
  switch (recompute) {
    case Recompute::kNone:
      return {};
    case Recompute::kAttention:
      return {0.5, q / all, 1};
    case Recompute::kMlp:
      return {0.5, gate_up / all, 0};
    case Recompute::kFull:
      return {1, (q + output + gate_up) / all, 1};
  }
  return {};
}

}  // namespace

CostModel with_recompute(const CostModel& cost, Recompute recompute) {
  SLIMPACK_CHECK(cost.recompute == Recompute::kNone);
  const Again share = again(cost.shape, recompute);
  CostModel result = cost;
  result.recompute = recompute;
  result.backward.per_pack += share.pack * cost.forward.per_pack;
  result.backward.per_token += share.linear * cost.forward.per_token;
  result.backward.per_slice += share.attention * cost.forward.per_slice;
  result.backward.per_pair += share.attention * cost.forward.per_pair;
  result.backward.per_prefix_token += share.attention * cost.forward.per_prefix_token;
  for (MergeTime& merge : result.merge) {
    merge.backward.per_pack += share.attention * merge.forward.per_pack;
    merge.backward.per_token += share.attention * merge.forward.per_token;
  }
  return result;
}

}  // namespace slimpack
