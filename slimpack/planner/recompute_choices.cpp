#include "slimpack/planner/recompute_choices.h"

#include <algorithm>
#include <utility>

#include "slimpack/cost/abilities.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/cost/recomputed_cost.h"
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
  const Decoder& shape = known.shape;
  const auto layers = static_cast<std::size_t>(shape.num_layers());
  const RecomputeByLayer all(layers, recompute);
  const std::vector<std::int64_t> of_kind = shape.count_kinds(0, layers);
  LayerPolicy policy{recompute};
  for (std::int32_t layer = 0, seen = 0; seen < std::ssize(of_kind); ++layer) {
    const std::size_t kind = shape.kind_of(static_cast<std::size_t>(layer));
    if (kind != static_cast<std::size_t>(seen)) continue;  // kinds are counted as they come
    ++seen;
    const double share = static_cast<double>(of_kind[kind]) / static_cast<double>(layers);
    const StageTable one = stage_table(known, StageLayout{{layer, layer + 1}}, all);
    policy.bytes += share * static_cast<double>(one.sequence_bytes(0, Tokens(1)).count());
  }
  const StageTable table = stage_table(known, layout, all);
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    for (const Pass pass : kWholePasses)
      policy.time += sequences.time(table.stage(StageId(s), pass)) / static_cast<double>(layers);
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

}  // namespace

std::vector<RecomputeChoice> recompute_choices(const StepQuestion& question) {
  const auto& [job, lengths, choices, cost] = question;
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
  if (choices.mixed_recompute && abilities(cost).keeps_by_token) {
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

StageTable stage_table(const Costs& cost, const Job& job, const RecomputeByLayer& recompute) {
  return stage_table(cost, job.layout, recompute, {job.replicas, job.speed});
}

StageTable stage_table(const Costs& cost, const Job& job, Recompute everywhere) {
  return stage_table(
      cost, job, RecomputeByLayer(static_cast<std::size_t>(cost.shape.num_layers()), everywhere));
}

bool never_fits(const std::optional<Bytes>& memory_cap, const SequenceLengths& lengths,
                std::int32_t most_merged, const StageTable& table) {
  if (!memory_cap) return false;
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  const Tokens held = (longest + Tokens(most_merged - 1)) / most_merged;
  for (std::int32_t r = 0; r < table.layout().ranks(); ++r) {
    if (table.sequence_bytes(r, held) > *memory_cap) return true;
    if (table.gradients_in_flight(r) > *memory_cap) return true;
  }
  return false;
}

StageTable cheapest_table(const Costs& cost, const Job& job, std::span<const Recompute> allowed) {
  const auto [cheapest, policy] = cheapest_costs(cost, allowed);
  return stage_table(cheapest, job, policy);
}

}  // namespace slimpack
