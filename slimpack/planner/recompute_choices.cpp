#include "slimpack/planner/recompute_choices.h"

#include <algorithm>
#include <utility>

#include "slimpack/cost/in_flight.h"
#include "slimpack/cost/memory_model.h"
#include "slimpack/cost/whole_sequences.h"
#include "slimpack/solver/lower_hull.h"

namespace slimpack {
namespace {

/// The most mixtures of the same two policies. Each is a search.
constexpr std::int32_t kMostMixtures = 8;

/// A policy in one layer: what a token keeps, and the time of all sequences in both passes.
struct LayerPolicy {
  Recompute recompute = Recompute::kElementwise;
  double bytes = 0;
  double time = 0;
};

/// Figures of the model's mean layer if all layers have the policy. Times are those of stages,
/// because a stage hides the transfers of rows that one layer by itself would wait for.
LayerPolicy layer_policy(const StageLayout& layout, const WholeSequences& sequences,
                         const Costs& known, Recompute recompute) {
  const RecomputingCosts cost = with_recompute(known, recompute);
  const auto layers = static_cast<std::size_t>(cost.shape.num_layers());
  const std::vector<std::int64_t> of_kind = cost.shape.count_kinds(0, layers);
  LayerPolicy policy{recompute};
  for (std::int32_t layer = 0, seen = 0; seen < std::ssize(of_kind); ++layer) {
    const std::size_t kind = cost.shape.kind_of(static_cast<std::size_t>(layer));
    if (kind != static_cast<std::size_t>(seen)) continue;  // kinds are counted as they come
    ++seen;
    const double share = static_cast<double>(of_kind[kind]) / static_cast<double>(layers);
    const StageLayout one{{layer, layer + 1}};
    policy.bytes += share * static_cast<double>(sequence_bytes(cost, one, 0, Tokens(1)).count());
  }
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    for (const Pass pass : kWholePasses)
      policy.time +=
          sequences.time(stage_cost(cost, layout, StageId(s), pass)) / static_cast<double>(layers);
  return policy;
}

/// Whether the first keeps less than the other without taking longer. Rows that wait in host memory
/// take that instead.
bool beats(const LayerPolicy& a, const LayerPolicy& b) {
  return a.recompute != Recompute::kOffload && a.bytes < b.bytes && a.time <= b.time;
}

/// The policies that no other one beats, in their order.
std::vector<LayerPolicy> unbeaten(const std::vector<LayerPolicy>& policies) {
  std::vector<LayerPolicy> out;
  for (const LayerPolicy& policy : policies)
    if (std::ranges::none_of(policies,
                             [&](const LayerPolicy& other) { return beats(other, policy); }))
      out.push_back(policy);
  return out;
}

RecomputeByLayer mixture(const StageLayout& layout, Recompute weak, Recompute strong,
                         std::int32_t strong_layers) {
  RecomputeByLayer recompute;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    for (std::int32_t l = 0; l < layout.layers(StageId(s)); ++l)
      recompute.push_back(l < strong_layers ? strong : weak);
  return recompute;
}

/// Numbers of layers of a stage that differ from the others, all of them or evenly spread.
std::vector<std::int32_t> mixed_layers(const StageLayout& layout) {
  std::int32_t most = 0;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    most = std::max(most, layout.layers(StageId(s)));
  const std::int32_t mixtures = std::min(most - 1, kMostMixtures);
  std::vector<std::int32_t> layers;
  for (std::int32_t i = 1; i <= mixtures; ++i) layers.push_back(i * most / (mixtures + 1));
  return layers;
}

/// Graphs of kNothing that cost no more than those of the allowed recomputations, nor more than
/// running forward again, which MicroPacks without a pair do: measurements may say otherwise of a
/// term. Where a forward is left to its backward, that backward has both.
Costs cheapest_graphs(Costs cost, std::span<const Recompute> allowed) {
  for (std::size_t kind = 0; kind < cost.shape.kinds.size(); ++kind) {
    const LayerCosts& again = layer_costs(cost, kind);
    AutogradLayer& layer = cost.autograd->layers[kind];
    PackCost forward = again.forward, backward = again.backward;
    for (const Recompute recompute : allowed) {
      if (recompute == Recompute::kFull) continue;
      forward = smaller_terms(forward, layer.kept(recompute).forward);
      backward = smaller_terms(backward, layer.kept(recompute).backward);
    }
    layer.whole.forward = smaller_terms(forward, again.backward + (-1.0) * backward);
    layer.whole.backward = backward;
  }
  return cost;
}

}  // namespace

std::vector<RecomputeChoice> recompute_choices(const Job& job, const SequenceLengths& lengths,
                                               const Choices& choices, const Costs& cost) {
  std::vector<RecomputeChoice> out;
  std::vector<LayerPolicy> policies;
  const auto layers = static_cast<std::size_t>(cost.shape.num_layers());
  const WholeSequences sequences(lengths);
  for (const Recompute recompute : choices.recompute)
    policies.push_back(layer_policy(job.layout, sequences, cost, recompute));
  policies = unbeaten(policies);
  for (const LayerPolicy& policy : policies) {
    const auto all = static_cast<double>(layers);
    out.push_back(
        {RecomputeByLayer(layers, policy.recompute), false, policy.time * all, policy.bytes * all});
  }
  // Under autograd a graph is kept by all layers or by none, and its bytes are not those of rows.
  if (choices.mixed_recompute && !cost.autograd) {
    std::vector<LayerPolicy> hull = lower_hull(std::move(policies));
    std::ranges::reverse(hull);  // each keeps less than the one before
    for (std::size_t i = 0; i + 1 < hull.size(); ++i)
      for (const std::int32_t n : mixed_layers(job.layout)) {
        RecomputeByLayer mixed = mixture(job.layout, hull[i].recompute, hull[i + 1].recompute, n);
        const auto strong =
            static_cast<double>(std::count(mixed.begin(), mixed.end(), hull[i + 1].recompute));
        const double weak = static_cast<double>(layers) - strong;
        out.push_back({std::move(mixed), true, hull[i].time * weak + hull[i + 1].time * strong,
                       hull[i].bytes * weak + hull[i + 1].bytes * strong});
      }
  }
  std::ranges::stable_sort(out, {}, &RecomputeChoice::time);
  return out;
}

bool never_fits(const Job& job, const SequenceLengths& lengths, const Choices& choices,
                const RecomputingCosts& cost) {
  if (!job.memory_cap) return false;
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  const Tokens held = (longest + Tokens(choices.most_merged - 1)) / choices.most_merged;
  for (std::int32_t r = 0; r < job.layout.ranks(); ++r) {
    if (sequence_bytes(cost, job.layout, r, held) > *job.memory_cap) return true;
    if (gradients_in_flight(cost, job.layout, r, job.replicas) > *job.memory_cap) return true;
  }
  return false;
}

RecomputingCosts cheapest_cost(const Costs& cost, std::span<const Recompute> allowed) {
  if (allowed.size() == 1 && (!cost.autograd || allowed.front() == Recompute::kFull))
    return with_recompute(cost, allowed.front());
  if (cost.autograd) return with_recompute(cheapest_graphs(cost, allowed), Recompute::kNothing);
  // No term of kNothing is larger than one of kElementwise, nor that than one of any other.
  return with_recompute(
      cost, std::min(*std::min_element(allowed.begin(), allowed.end()), Recompute::kElementwise));
}

}  // namespace slimpack
