#include "slimpack/packflow/layer/experts.h"

#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/grouped_linear.h"
#include "slimpack/packflow/kernels/linear.h"
#include "slimpack/packflow/layer/recompute_rows.h"

namespace slimpack {
namespace {

at::Tensor probabilities(const LayerContext& c, const at::Tensor& n_TH) {
  const at::Tensor logits_TE = linear(n_TH, c.parameters.router_EH, Parameter());
  return at::softmax(logits_TE, -1, accumulate_type(logits_TE));
}

/// The weights of each row's experts, in the accumulate type.
at::Tensor expert_weights(const LayerContext& c, const LayerRows& rows) {
  const at::Tensor chosen_TK = rows.router_TE.gather(1, rows.choice_TK);
  return c.shape.norm_topk_prob ? chosen_TK.div(chosen_TK.sum(1, true)) : chosen_TK;
}

/// Weights by pair, as a column in `type`.
at::Tensor pair_weights(const ExpertPairs& pairs, const at::Tensor& weights_TK,
                        at::ScalarType type) {
  return pairs.by_expert({weights_TK.to(type)});
}

/// Gradient of the router's logits, in `type`, from that of the weights of the experts.
at::Tensor router_gradient(const LayerContext& c, const LayerRows& rows, at::Tensor dweights_TK,
                           at::ScalarType type) {
  const at::Tensor chosen_TK = rows.router_TE.gather(1, rows.choice_TK);
  if (c.shape.norm_topk_prob) {
    const at::Tensor sum_T1 = chosen_TK.sum(1, true);
    const at::Tensor mean_T1 = at::mul(dweights_TK, chosen_TK).sum(1, true).div_(sum_T1);
    dweights_TK = dweights_TK.sub(mean_T1).div_(sum_T1);
  }
  const at::Tensor dprobabilities_TE =
      at::zeros_like(rows.router_TE).scatter_(1, rows.choice_TK, dweights_TK);
  return at::_softmax_backward_data(dprobabilities_TE, rows.router_TE, -1,
                                    rows.router_TE.scalar_type())
      .to(type);
}

/// Gate and up of all pairs, from the rows that forward kept or computed again.
at::Tensor gate_up_of_pairs(const LayerContext& c, BackwardRows& rows, const ExpertPairs& pairs) {
  if (!rows.gate_up_TO.empty()) return pairs.by_expert(std::exchange(rows.gate_up_TO, {}));
  const LayerParameters& p = c.parameters;
  const at::Tensor n_TH = rms_norm(rows.joined.middle_TH, p.mlp_norm_H, c.rms_norm_eps);
  rows.joined.router_TE = probabilities(c, n_TH);
  return grouped_linear(pairs.of_rows(n_TH), p.gate_up_OH, pairs);
}

}  // namespace

at::Tensor experts_forward(const LayerContext& c, LayerRows& rows) {
  LayerParameters& p = c.parameters;
  at::Tensor n_TH = normed_input(c, rows.middle_TH, p.mlp_norm_H, rows.mlp_rstd_T1);
  rows.router_TE = probabilities(c, n_TH);
  rows.choice_TK = std::get<1>(at::topk(rows.router_TE, c.shape.experts_per_token, -1));
  const ExpertPairs pairs = expert_pairs(rows.choice_TK, c.shape.experts);
  at::Tensor x_PH = pairs.of_rows(std::exchange(n_TH, {}));
  at::Tensor gate_up_PO = grouped_linear(std::exchange(x_PH, {}), p.gate_up_OH, pairs);
  at::Tensor act_PF = gated({gate_up_PO});
  if (keeps_gate_up(c.recompute)) rows.gate_up_TO = pairs.by_row(gate_up_PO);
  gate_up_PO.reset();
  if (c.recompute == Recompute::kNothing) rows.act_TF = pairs.by_row(act_PF);
  act_PF.mul_(pair_weights(pairs, expert_weights(c, rows), act_PF.scalar_type()));
  at::Tensor out_PH = grouped_linear(std::exchange(act_PF, {}), p.down_HF, pairs);
  return pairs.summed(std::move(out_PH)).add_(rows.middle_TH);
}

std::vector<NormedMap> experts_backward(const LayerContext& c, BackwardRows& rows,
                                        const at::Tensor& dy_TH, WeightGradients& weights) {
  LayerParameters& p = c.parameters;
  const auto type = dy_TH.scalar_type();
  const ExpertPairs pairs = expert_pairs(rows.joined.choice_TK, c.shape.experts);
  at::Tensor gate_up_PO = gate_up_of_pairs(c, rows, pairs);
  at::Tensor dact_PF = grouped_input_gradient(pairs.of_rows(dy_TH), p.down_HF, pairs);
  at::Tensor act_PF =
      rows.joined.act_TF.defined() ? pairs.by_expert({rows.joined.act_TF}) : gated({gate_up_PO});
  const at::Tensor dweights_P1 = at::mul(dact_PF, act_PF).sum(1, true, accumulate_type(dact_PF));
  const at::Tensor weights_P1 = pair_weights(pairs, expert_weights(c, rows.joined), type);
  act_PF.mul_(weights_P1);
  weights.add({dy_TH, std::exchange(act_PF, {}), nullptr, &p.down_HF, &p.down_bias_H, false, pairs},
              c.rows, dy_TH);
  dact_PF.mul_(weights_P1);
  at::Tensor d_gate_up_PO = gated_backward(dact_PF, {gate_up_PO});
  at::Tensor dlogits_TE = router_gradient(c, rows.joined, pairs.by_row(dweights_P1), type);
  return {{std::move(d_gate_up_PO), &p.gate_up_OH, &p.gate_up_bias_O, pairs},
          {std::move(dlogits_TE), &p.router_EH, &p.gate_up_bias_O, {}}};
}

}  // namespace slimpack
