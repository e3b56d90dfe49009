// Autograd stages: times of a run whose layers are a model's own (AutogradCosts has its rules).
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/cost/autograd_packs.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/parameter_counts.h"

namespace slimpack {
namespace {

/// For each forward MicroPack, whether it has a slice with tokens in the prefix of another slice of
/// either pass.
std::vector<bool> feeds_others(const PackPlan& packs) {
  Begins begins;
  add_begins(begins, packs.forward);
  add_begins(begins, packs.backward);
  std::vector<bool> feeds;
  for (const MicroPack& pack : packs.forward)
    feeds.push_back(std::ranges::any_of(pack.slices, [&](const Slice& slice) {
      const std::size_t q = slice.sequence.index();
      return q < begins.size() && !begins[q].empty() && begins[q].back() > slice.begin;
    }));
  return feeds;
}

/// By forward MicroPack, the begins of backward slices that lie inside of its slices.
std::vector<double> cuts_inside(const PackPlan& packs) {
  Begins begins;
  add_begins(begins, packs.backward);
  std::vector<double> cuts;
  for (const MicroPack& pack : packs.forward) {
    double& inside = cuts.emplace_back(0.0);
    for (const Slice& slice : pack.slices) {
      if (slice.sequence.index() >= begins.size()) continue;
      const std::vector<Tokens>& of = begins[slice.sequence.index()];
      inside += static_cast<double>(std::ranges::lower_bound(of, slice.end) -
                                    std::ranges::upper_bound(of, slice.begin));
    }
  }
  return cuts;
}

/// A forward without a graph on the last stage: no further than keys and values that are needed. A
/// layer without them runs whole, for its state.
PackCost cut_short(const Costs& cost, const StageLayout& layout, PackCost forward) {
  const auto last_layer = static_cast<std::size_t>(layout.layer_begin.back() - 1);
  const std::size_t kind = cost.shape.kind_of(last_layer);
  const AutogradLayer& layer = cost.autograd->layers[kind];
  if (layer.has_state() || layer.kv_bytes == 0) return forward;
  const PackCost skipped = (-1.0) * cost.kinds[kind].forward;
  const PackCost rest = forward + skipped;
  return {std::max(0.0, rest.per_pack),          std::max(0.0, rest.per_slice),
          std::max(0.0, rest.per_token),         std::max(0.0, rest.per_pair),
          std::max(0.0, rest.per_prefix_token),  std::max(0.0, rest.per_window_pair),
          std::max(0.0, rest.per_window_prefix), rest.window,
          std::max(0.0, rest.per_missing_row)};
}

/// The time of torch's ring over the replicas. In each of replicas − 1 steps, a rank passes one
/// share of `bytes` on.
double ring_time(const Costs& cost, double bytes, std::int32_t replicas) {
  return (replicas - 1) *
         (cost.reduction.latency + cost.reduction.per_byte * bytes / static_cast<double>(replicas));
}

/// The time in which a prefix comes from host memory, for a layer; in backward also its sums, and
/// back again.
PackCost prefix_transfer(const Costs& cost, std::size_t kind, Pass pass) {
  const double ways = pass == Pass::kForward ? 1 : 1 + 2 * sums_scale(cost);
  const double time = ways * cost.host.per_byte * cost.autograd->layers[kind].kv_bytes;
  const Tokens window(cost.shape.kinds[kind].window);
  if (window > Tokens(0)) return {.per_window_prefix = time, .window = window};
  return {.per_prefix_token = time};
}

}  // namespace

const KeptGraph& AutogradLayer::kept(Recompute recompute) const {
  SLIMPACK_CHECK(recompute == Recompute::kNothing || recompute == Recompute::kElementwise,
                 "no graph is kept of \"{}\"", to_string(recompute));
  return recompute == Recompute::kElementwise ? elementwise : whole;
}

AutogradStages::AutogradStages(const Costs& costs, const StageLayout& stages,
                               RecomputeByLayer by_layer, Replication replicas)
    : BoundStages(costs, stages, std::move(by_layer), std::move(replicas)) {
  for (std::int32_t s = 0; s < layout.stages() && !again_; ++s)
    if (keeps_graphs(StageId(s)))
      again_ = std::make_unique<const AutogradStages>(
          cost, layout,
          RecomputeByLayer(static_cast<std::size_t>(cost.shape.num_layers()), Recompute::kFull),
          replication);
}

bool AutogradStages::keeps_graphs(StageId stage) const {
  for (std::int32_t layer = first_layer(stage); layer < end_layer(stage); ++layer) {
    const Recompute policy = recompute_of(layer);
    if (policy != Recompute::kNothing && policy != Recompute::kElementwise) return false;
  }
  return true;
}

bool AutogradStages::offloads(StageId stage) const {
  for (std::int32_t layer = first_layer(stage); layer < end_layer(stage); ++layer)
    if (recompute_of(layer) == Recompute::kOffload) return true;
  return false;
}

bool AutogradStages::may_skip_forward(StageId stage) const {
  return stage.value() == layout.stages() - 1 && !keeps_graphs(stage);
}

StageLayers AutogradStages::layers(StageId stage, Pass pass, std::int32_t replicas) const {
  const bool forward = pass == Pass::kForward;
  const bool keeps = keeps_graphs(stage);
  StageLayers sum;
  for (std::size_t kind = 0; kind < cost.shape.kinds.size(); ++kind) {
    const auto counts = layers_by_recompute(stage, kind);
    const std::int32_t all = std::accumulate(counts.begin(), counts.end(), 0);
    const LayerCosts& layer = cost.kinds[kind];
    sum.exchange = sum.exchange + all * merge_time(layer, pass, replicas);
    if (!keeps) {
      const std::int32_t offloaded = counts[static_cast<std::size_t>(Recompute::kOffload)];
      sum.time = sum.time + all * (forward ? layer.forward : layer.backward) +
                 offloaded * prefix_transfer(cost, kind, pass);
      continue;
    }
    for (const Recompute policy : {Recompute::kNothing, Recompute::kElementwise}) {
      const KeptGraph& graph = cost.autograd->layers[kind].kept(policy);
      const std::int32_t kept = counts[static_cast<std::size_t>(policy)];
      sum.time = sum.time + kept * (forward ? graph.forward : graph.backward);
    }
  }
  return sum;
}

EdgeTime AutogradStages::beside_layers(StageId stage, Pass pass) const {
  const bool only_backward = pass == Pass::kBackward && keeps_graphs(stage);
  EdgeTime time = only_backward ? EdgeTime() : cost.autograd->stage;
  if (!only_backward && stage.value() > 0 && offloads(stage))
    time.per_token += cost.host.per_byte * input_bytes(cost);
  if (cost.zero == 3) time.per_pack += exchange_by_layer(stage, pass);
  return time;
}

/// A pass gathers the weights of each layer, and once more for its backward where it runs both;
/// then it sums the gradients. None of it is counted as hidden.
double AutogradStages::exchange_by_layer(StageId stage, Pass pass) const {
  const ParameterCount held = stage_parameters(cost, layout, stage);
  const std::int32_t replicas = replication.replicas;
  const double parts = end_layer(stage) - first_layer(stage) + 1;  // with what lies outside
  const auto ring = [&](double bytes) { return parts * ring_time(cost, bytes / parts, replicas); };
  const double weights = ring(weight_bytes(cost).of(held));
  if (pass == Pass::kForward) return weights;
  const double gradients = static_cast<double>(held.trained) * cost.autograd->state.gradients;
  return weights * (keeps_graphs(stage) ? 1 : 2) + ring(gradients);
}

double AutogradStages::state_slice_time(StageId stage) const {
  double time = 0;
  for (std::int32_t l = first_layer(stage); l < end_layer(stage); ++l) {
    const std::size_t kind = cost.shape.kind_of(static_cast<std::size_t>(l));
    if (cost.autograd->layers[kind].has_state()) time += cost.kinds[kind].forward.per_slice;
  }
  return time;
}

void AutogradStages::add_passes(TaskTimes& times, const SummedPacks& packs,
                                ReplicaId replica) const {
  const PairedPacks paired(packs.packs);
  const std::vector<bool> feeds = feeds_others(packs.packs);
  const std::vector<double> cuts = cuts_inside(packs.packs);
  const auto add = [&](StageId stage, Pass pass) {
    const bool forward = pass == Pass::kForward;
    const bool keeps = keeps_graphs(stage);
    const double speed = replication.speed_of(replica, layout.placement.rank_of(stage));
    const PackCost kept = stage_cost(*this, stage, pass);
    PackCost again = keeps ? stage_cost(*again_, stage, pass) : kept;
    const bool last = stage.value() == layout.stages() - 1;
    if (forward && last) again = cut_short(cost, layout, again);
    const std::vector<PackSums>& sums = forward ? packs.forward : packs.backward;
    const double of_cut = forward ? state_slice_time(stage) / speed : 0;
    std::vector<Nanos>& added = (forward ? times.forward : times.backward).emplace_back();
    for (std::size_t p = 0; p < sums.size(); ++p) {
      const bool with_graph = keeps && paired.of(pass)[p];
      const bool skipped = forward && last && !with_graph && !feeds[p];
      added.push_back(skipped ? Nanos(0) : time_of((with_graph ? kept : again) / speed, sums[p]));
      if (!skipped && of_cut > 0 && cuts[p] > 0) added.back() += rounded(cuts[p] * of_cut);
    }
  };
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    for (const Pass pass : kWholePasses) add(StageId(s), pass);
}

/// Every replica has all gradients of its stages, or its share of them that passes have summed, and
/// updates all trained parameters, or its share of them. If tied ones are trained, they have a
/// gradient on the first and one on the last stage.
void AutogradStages::add_step_end(TaskTimes& times, const PackPlan&, ReplicaId replica) const {
  const double gradient = cost.autograd->state.gradients;
  const std::int64_t tied_trained = cost.trained       ? cost.trained->edges.shared
                                    : cost.shape.edges ? cost.shape.edges->shared
                                                       : 0;
  for (std::int32_t rank = 0; rank < layout.ranks(); ++rank) {
    double parameters = 0;
    for (const StageId stage : layout.placement.stages_of(rank))
      parameters += static_cast<double>(stage_parameters(cost, layout, stage).trained);
    const bool edge = rank == 0 || rank == layout.ranks() - 1;
    const double tied = edge && layout.stages() > 1 ? static_cast<double>(tied_trained) : 0;
    const double exchanged =
        tied > 0 ? cost.transfer.latency + cost.transfer.per_byte * gradient * tied : 0;
    // An all-reduce is a ring that sums and a ring that hands out.
    times.reduce.push_back(rounded(
        (cost.zero == 3 ? 0 : 2) * ring_time(cost, parameters * gradient, replication.replicas) +
        exchanged));
    const bool shares = cost.shard_replicas || cost.zero == 3;
    const double updated = shares ? parameters / replication.replicas : parameters;
    times.step_end.push_back(
        rounded(cost.optimizer_per_parameter * updated / replication.speed_of(replica, rank)));
  }
}

/// The reduction follows the last action whole.
double AutogradStages::least_reduction(double) const {
  TaskTimes ends;
  add_step_end(ends, {}, ReplicaId(0));
  return static_cast<double>(ends.reduce.front().count());
}

}  // namespace slimpack
