#include "slimpack/cost/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "slimpack/base/error.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/recomputed_cost.h"

namespace slimpack {

namespace {

void add(EdgeTime& sum, const EdgeTime& more, double times) {
  sum.per_pack += times * more.per_pack;
  sum.per_token += times * more.per_token;
}

/// The part of a MicroPack's time on a stage that is not a layer's: embedding, head, and the
/// uncovered transfer of the last layer's rows.
EdgeTime edge_time(const BoundStages& bound, StageId s, Pass pass) {
  const Costs& cost = bound.cost;
  const StageLayout& layout = bound.layout;
  const bool backward = pass == Pass::kBackward;
  const bool whole = !layout.spread_vocabulary;
  EdgeTime edge;
  if (s.value() == 0 && whole)
    edge = backward ? cost.ends.embedding_backward : cost.ends.embedding_forward;
  add(edge, bound.beside_layers(s, pass), 1);
  const bool last = s.value() == layout.stages() - 1;
  if (last && backward && whole) add(edge, cost.ends.head_backward, 1);
  const std::int32_t last_layer = bound.end_layer(s) - 1;
  if (bound.recompute_of(last_layer) == Recompute::kOffload)
    edge.per_token += uncovered_transfer(cost, pass, last && whole,
                                         cost.shape.kind_of(static_cast<std::size_t>(last_layer)));
  return edge;
}

PackCost merge_time(const MergeTime& merge, Pass pass) {
  const EdgeTime& exchange = pass == Pass::kForward ? merge.forward : merge.backward;
  const SliceTime& slice = pass == Pass::kForward ? merge.forward_slice : merge.backward_slice;
  return {.per_pack = exchange.per_pack,
          .per_slice = slice.per_slice,
          .per_token = exchange.per_token,
          .per_prefix_token = slice.per_prefix_token,
          .per_window_prefix = slice.per_window_prefix,
          .travel = pass == Pass::kForward ? merge.forward_travel : merge.backward_travel};
}

/// Between the times of two groups, or beyond them: messages and kernel calls grow with the number
/// of replicas, and what each of them does of all rows grows as 1 − 1/replicas does.
PackCost between(const PackCost& fewer, const PackCost& more, double few, double many,
                 double replicas) {
  const double calls = (replicas - few) / (many - few);
  const double rows = (1 / few - 1 / replicas) / (1 / few - 1 / many);
  const auto at = [](double a, double b, double share) {
    return std::max(0.0, a + share * (b - a));
  };
  return {.per_pack = at(fewer.per_pack, more.per_pack, calls),
          .per_slice = at(fewer.per_slice, more.per_slice, calls),
          .per_token = at(fewer.per_token, more.per_token, rows),
          .per_prefix_token = at(fewer.per_prefix_token, more.per_prefix_token, rows),
          .per_window_prefix = at(fewer.per_window_prefix, more.per_window_prefix, rows),
          .travel = {at(fewer.travel.per_query, more.travel.per_query, rows),
                     at(fewer.travel.per_key, more.travel.per_key, rows),
                     at(fewer.travel.hidden_per_pair, more.travel.hidden_per_pair, calls)}};
}

/// Adds the stage's layers of one kind.
void add_layers(StageLayers& sum, const PackFlowStages& bound, StageId stage, Pass pass,
                std::int32_t replicas, std::size_t kind) {
  const Costs& cost = bound.cost;
  const auto counts = bound.layers_by_recompute(stage, kind);
  const std::int32_t all = std::accumulate(counts.begin(), counts.end(), 0);
  const LayerCosts& layer = cost.kinds[kind];
  sum.exchange = sum.exchange + all * merge_time(layer, pass, replicas);
  if (pass == Pass::kForward) {
    sum.time = sum.time + all * layer.forward;
    const std::int32_t offloaded = counts[static_cast<std::size_t>(Recompute::kOffload)];
    sum.time.per_token += offloaded * exposed_transfer(cost, Pass::kForward, kind);
    return;
  }
  for (const Recompute recompute : all_recomputations()) {
    const std::int32_t layers = counts[static_cast<std::size_t>(recompute)];
    if (layers == 0) continue;
    sum.time = sum.time + layers * backward_time(cost, recompute, kind);
    if (attends_again(recompute))
      sum.exchange = sum.exchange + layers * merge_time(layer, Pass::kForward, replicas);
  }
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

PackCost merge_time(const LayerCosts& cost, Pass pass, std::int32_t replicas) {
  if (replicas == 1) return {};
  const auto known = [&](std::size_t power) {
    return power == 0 ? PackCost() : merge_time(cost.merge[power - 1], pass);
  };
  const auto below = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(replicas))) - 1;
  if (below > cost.merge.size())
    invalid_input("the cost model knows merging of up to {} replicas, the plan merges {}; {}",
                  cost.merge.empty() ? 1 : 1 << cost.merge.size(), replicas,
                  "plan again with this cost model");
  if (std::has_single_bit(static_cast<unsigned>(replicas))) return known(below);
  const std::size_t few = below < cost.merge.size() ? below : below - 1;
  return between(known(few), known(few + 1), std::ldexp(1.0, static_cast<int>(few)),
                 std::ldexp(1.0, static_cast<int>(few) + 1), replicas);
}

StageLayers PackFlowStages::layers(StageId stage, Pass pass, std::int32_t replicas) const {
  StageLayers sum;
  for (std::size_t kind = 0; kind < cost.shape.kinds.size(); ++kind)
    add_layers(sum, *this, stage, pass, replicas, kind);
  return sum;
}

PackCost stage_cost(const BoundStages& bound, StageId stage, Pass pass, std::int32_t replicas) {
  const auto [time, exchange] = bound.layers(stage, pass, replicas);
  const EdgeTime edge = edge_time(bound, stage, pass);
  return {.per_pack = time.per_pack + exchange.per_pack + edge.per_pack,
          .per_slice = time.per_slice + exchange.per_slice,
          .per_token = (time.per_token + edge.per_token) / replicas + exchange.per_token,
          .per_pair = time.per_pair / replicas,
          .per_prefix_token = time.per_prefix_token / replicas + exchange.per_prefix_token,
          .per_window_pair = time.per_window_pair / replicas,
          .per_window_prefix = time.per_window_prefix / replicas + exchange.per_window_prefix,
          .window = time.window,
          .per_missing_row = time.per_missing_row,
          .travel = exchange.travel};
}

EdgeTime vocabulary_time(const BoundStages& bound, Pass pass) {
  const Costs& cost = bound.cost;
  const double ranks = bound.layout.ranks();
  const double row = static_cast<double>(cost.shape.hidden_size() * element_bytes(cost.dtype)) *
                     cost.transfer.per_byte;
  // To all other ranks or from them: of H both. One rank has the rows. Up to two others get them
  // from it; of more each first gets an even share, which it then passes to all.
  const double ways = pass == Pass::kHead ? 2 : 1;
  const double rounds = ranks > 3 ? 2 : 1;
  const double rows = ranks > 3 ? 2 * (ranks - 1) / ranks : ranks - 1;
  EdgeTime time{ways * rounds * cost.transfer.latency, ways * rows * row};
  // Every rank writes a row for each token, of other ranks' tokens zeros.
  if (pass == Pass::kEmbedding) add(time, cost.ends.embedding_forward, 1);
  if (pass == Pass::kEmbeddingGradient) add(time, cost.ends.embedding_backward, 1);
  if (pass == Pass::kHead) add(time, cost.ends.head_backward, 1 / ranks);
  return time;
}

PackCost StageTable::stage(StageId stage, Pass pass, std::int32_t replicas) const {
  return stage_cost(*bound_, stage, pass, replicas);
}

EdgeTime StageTable::vocabulary(Pass pass) const {
  return vocabulary_time(*bound_, pass);
}

PackCost StageTable::rank(std::int32_t rank, Pass pass, std::int32_t replicas) const {
  PackCost sum;
  for (const StageId stage : layout().placement.stages_of(rank))
    sum = sum + stage_cost(*bound_, stage, pass, replicas);
  if (!layout().spread_vocabulary) return sum;
  for (const Pass joint : kJointPasses) {
    if (runs_forward_packs(joint) != runs_forward_packs(pass)) continue;
    const EdgeTime time = vocabulary_time(*bound_, joint);
    sum.per_pack += time.per_pack;
    sum.per_token += time.per_token / replicas;
  }
  return sum;
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
    edge_work.back() += cost.ends.head_backward.per_token * token_count;
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
