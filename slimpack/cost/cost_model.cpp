#include "slimpack/cost/cost_model.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "slimpack/base/error.h"
#include "slimpack/cost/parameter_counts.h"

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

/// Elements of matrices that a token is multiplied with.
struct UsedWeights {
  double all = 0;
  double trained = 0;
};

UsedWeights layer_weights(const Costs& cost, std::size_t kind) {
  const auto counted = static_cast<double>(cost.shape.kinds[kind].active_weights());
  if (!cost.trained) return {counted, counted};
  const auto trained = static_cast<double>(cost.trained->kinds[kind].weights);
  return {cost.shape.edges ? counted : counted + trained, trained};
}

UsedWeights head_weights(const Costs& cost) {
  const std::int64_t head = cost.shape.embedding_parameters();
  const std::int64_t trained = cost.trained ? std::min(head, cost.trained->edges.after) : head;
  return {static_cast<double>(head), static_cast<double>(trained)};
}

/// Forward, gradients of the inputs, and gradients of the weights that are trained.
Flops product_flops(const UsedWeights& weights, double tokens) {
  return Flops(kMultiplyAdd * tokens * (2 * weights.all + weights.trained));
}

void drop(EdgeTime& time) {
  time.per_pack = 0;
}

void drop(SliceTime& time) {
  time.per_slice = 0;
}

void drop(PackCost& cost) {
  cost.per_pack = cost.per_slice = cost.per_missing_row = 0;
}

void drop(LayerCosts& layer) {
  drop(layer.forward);
  drop(layer.backward);
  layer.weight_reading = 0;  // is part of forward.per_pack
  drop(layer.elementwise);
  drop(layer.weight_gradient);
  for (MergeTime& merge : layer.merge) {
    drop(merge.forward);
    drop(merge.backward);
    drop(merge.forward_slice);
    drop(merge.backward_slice);
  }
}

void drop(AutogradCosts& autograd) {
  for (AutogradLayer& layer : autograd.layers)
    for (KeptGraph* graph : {&layer.whole, &layer.elementwise}) {
      drop(graph->forward);
      drop(graph->backward);
    }
  drop(autograd.stage);
}

/// Layers of unequal work to stages. Steps:
///   1. For one stage after the other and every number of layers that it and those before it may
///      have, the least that the most loaded of them must carry.
///   2. Back from the last stage; of equally good choices the one that gives it most layers.
/// `work` is by layer, `last_work` the same on the last stage, `edge_work` by stage.
StageLayout layout_of_kinds(const std::vector<double>& work, const std::vector<double>& last_work,
                            const std::vector<double>& edge_work) {
  constexpr double kRounding = 1 + 1e-9;  // of sums of the same layers
  const std::size_t layers = work.size(), stages = edge_work.size();
  const auto work_before = [&](const std::vector<double>& by_layer) {
    std::vector<double> until(layers + 1, 0.0);
    std::partial_sum(by_layer.begin(), by_layer.end(), until.begin() + 1);
    return until;
  };
  const std::vector<double> until = work_before(work), last_until = work_before(last_work);
  const double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> least(stages + 1, std::vector<double>(layers + 1, never));
  least[0][0] = 0;
  const auto most_loaded = [&](std::size_t s, std::size_t begin, std::size_t end) {
    const std::vector<double>& before = s + 1 == stages ? last_until : until;
    return std::max(least[s][begin], before[end] - before[begin] + edge_work[s]);
  };
  for (std::size_t s = 0; s < stages; ++s)
    for (std::size_t end = s + 1; end + (stages - s - 1) <= layers; ++end)
      for (std::size_t begin = s; begin < end; ++begin)
        least[s + 1][end] = std::min(least[s + 1][end], most_loaded(s, begin, end));
  StageLayout layout;
  layout.layer_begin.assign(stages + 1, static_cast<std::int32_t>(layers));
  for (std::size_t s = stages, end = layers; s-- > 0;) {
    std::size_t begin = s;
    while (most_loaded(s, begin, end) > kRounding * least[s + 1][end]) ++begin;
    layout.layer_begin[s] = static_cast<std::int32_t>(begin);
    end = begin;
  }
  return layout;
}

/// The work of a layer, and of one on the last stage.
struct LayerWork {
  double usual, last;
};

/// Layers of equal work to stages. Each stage gets one. Every further layer goes to the rank that
/// is lightest with it, to its stage with the fewest layers. A rank's layers are equal, so no
/// exchange of layers can lower the largest load afterwards.
StageLayout layout_of_equals(const LayerWork& work, const std::vector<double>& edge_work,
                             const StagePlacement& placement, std::int32_t layers) {
  const std::size_t stages = edge_work.size();
  std::vector<std::int32_t> count(stages, 1);
  const auto with_one_more = [&](std::size_t s) {
    double load = 0;  // of the rank
    for (const StageId stage : placement.stages_of(placement.rank_of(StageId(s)))) {
      const std::size_t own = stage.index();
      load += edge_work[own] +
              (own + 1 == stages ? work.last : work.usual) * (count[own] + (own == s ? 1 : 0));
    }
    return std::tuple(load, count[s], -static_cast<int>(s));
  };
  for (auto assigned = static_cast<std::int32_t>(stages); assigned < layers; ++assigned) {
    std::size_t lightest = 0;
    for (std::size_t s = 1; s < stages; ++s)
      if (with_one_more(s) < with_one_more(lightest)) lightest = s;
    ++count[lightest];
  }
  StageLayout layout{{0}};
  for (const std::int32_t n : count) layout.layer_begin.push_back(layout.layer_begin.back() + n);
  return layout;
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

Flops layer_state_flops(const LayerShape& layer, Tokens tokens, Pass pass) {
  return Flops(kMultiplyAdd * static_cast<double>(layer.state.multiplied) *
               static_cast<double>(tokens.count()) *
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

Flops model_flops(const Costs& cost, const SequenceLengths& lengths) {
  const Decoder& shape = cost.shape;
  const Tokens all_tokens = total_tokens(lengths);
  const auto tokens = static_cast<double>(all_tokens.count());
  const auto layers = shape.count_kinds(0, static_cast<std::size_t>(shape.num_layers()));
  Flops sum;
  for (std::size_t kind = 0; kind < layers.size(); ++kind) {
    const LayerShape& of_kind = shape.kinds[kind];
    const Flops products =
        layer_attention_flops(of_kind, pairs_of(of_kind, lengths), Pass::kForward) +
        layer_state_flops(of_kind, all_tokens, Pass::kForward);
    const Flops layer =
        product_flops(layer_weights(cost, kind), tokens) + products * (1 + kModelAttentionBackward);
    sum = sum + layer * static_cast<double>(layers[kind]);
  }
  return sum + product_flops(head_weights(cost), tokens * cost.ends.target_share);
}

Costs without_overheads(const Costs& cost) {
  Costs rest = cost;
  for (LayerCosts& kind : rest.kinds) drop(kind);
  for (EdgeTime* edge :
       {&rest.ends.embedding_forward, &rest.ends.embedding_backward, &rest.ends.head_backward})
    drop(*edge);
  rest.transfer.latency = 0;  // ranks that share the vocabulary wait for it in every MicroPack
  if (rest.autograd) drop(*rest.autograd);
  return rest;
}

StageLayout balanced_layout(const Costs& cost, const SequenceLengths& lengths, std::int32_t ranks,
                            std::int32_t stages_per_rank, bool spread_vocabulary, LastStage last,
                            PlacementStyle style) {
  const auto layers = static_cast<std::int32_t>(cost.shape.num_layers());
  const std::int64_t all = std::int64_t{ranks} * stages_per_rank;
  if (all < 1 || all > layers) {
    invalid_input(
        "{} pipeline stages for a model of {} layers: every stage needs a layer; use 1 to {}", all,
        layers, layers);
  }
  const auto stages = static_cast<std::int32_t>(all);
  // 1. The work of one layer of each kind, and of each stage's edges, for these lengths.
  std::vector<double> work_of_kind, last_work_of_kind;
  for (std::size_t kind = 0; kind < cost.shape.kinds.size(); ++kind) {
    const LayerCosts& layer = cost.kinds[kind];
    double& work = work_of_kind.emplace_back(0.0);
    double& last_work = last_work_of_kind.emplace_back(0.0);
    for (const Tokens length : lengths) {
      const Slice whole{SequenceId(), Tokens(0), length};
      work += layer.forward(whole) + layer.backward(whole);
      last_work += layer.backward(whole);
    }
  }
  if (last == LastStage::kBothPasses) last_work_of_kind = work_of_kind;
  const auto token_count = static_cast<double>(total_tokens(lengths).count());
  std::vector<double> edge_work(static_cast<std::size_t>(stages), 0.0);
  if (!spread_vocabulary) {
    edge_work.front() +=
        (cost.ends.embedding_forward.per_token + cost.ends.embedding_backward.per_token) *
        token_count;
    edge_work.back() += cost.ends.head().per_token * token_count;
  }

  const StagePlacement placement = StagePlacement::of(style, ranks, stages_per_rank);
  StageLayout layout;
  if (work_of_kind.size() > 1) {
    std::vector<double> work, last_work;
    for (const std::uint8_t kind : cost.shape.kind_of_layer) {
      work.push_back(work_of_kind[kind]);
      last_work.push_back(last_work_of_kind[kind]);
    }
    layout = layout_of_kinds(work, last_work, edge_work);
  } else {
    layout = layout_of_equals({work_of_kind.front(), last_work_of_kind.front()}, edge_work,
                              placement, layers);
  }
  layout.placement = placement;
  layout.spread_vocabulary = spread_vocabulary;
  return layout;
}

}  // namespace slimpack
