#include "slimpack/planner/fit_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace slimpack {
namespace {

constexpr std::int32_t kMostMerged = 8;
constexpr std::int32_t kMostFactor = 8;
constexpr std::int32_t kMostReplicas = 4096;

/// One thing to change, by as much as each of the edits says; mildest first.
struct Dial {
  std::vector<std::function<void(FitJob&)>> edits;
  bool adds_ranks = false;
  bool trades_ranks = false;
};

/// The cheapest that fits, layer by layer: milder than any one policy for all layers.
Dial recomputation(const FitJob& wish, const FitLimits& limits) {
  if (wish.choices.mixed_recompute) return {};
  return {{[known = limits.recompute](FitJob& job) {
    job.choices.recompute = known;
    job.choices.mixed_recompute = true;
  }}};
}

Dial sharded_replicas(const FitJob& wish, const FitLimits& limits) {
  if (wish.grid.zero == 3 || wish.grid.dp == 1 || !limits.shards_replicas) return {};
  Dial dial{{[](FitJob& job) {  // every pass pays for the exchange
    job.grid.shard_replicas = false;
    job.grid.zero = 3;
  }}};
  if (!wish.grid.shard_replicas)
    dial.edits.insert(dial.edits.begin(), [](FitJob& job) { job.grid.shard_replicas = true; });
  return dial;
}

Dial optimizer_on_host(const FitJob& wish, const FitLimits& limits) {
  if (wish.grid.offload_optimizer || !limits.offloads_optimizer) return {};
  return {{[](FitJob& job) { job.grid.offload_optimizer = true; }}};
}

Dial merging(const FitJob& wish) {
  Dial dial;
  for (std::int32_t group = 2; group <= std::min(kMostMerged, wish.grid.dp); group *= 2)
    if (group > wish.choices.most_merged)
      dial.edits.emplace_back([=](FitJob& job) { job.choices.most_merged = group; });
  return dial;
}

/// Multiplies by two, four and eight, at the cost of replicas if `traded`.
Dial ranks(const FitJob& wish, std::int32_t ParallelGrid::*axis, bool traded) {
  Dial dial{{}, !traded, traded};
  for (std::int32_t factor = 2; factor <= kMostFactor; factor *= 2) {
    if (traded && wish.grid.dp % factor != 0) break;
    dial.edits.emplace_back([=](FitJob& job) {
      job.grid.*axis *= factor;
      if (traded) job.grid.dp /= factor;
    });
  }
  return dial;
}

std::vector<Dial> dials_of(const FitJob& wish, const FitLimits& limits) {
  std::vector<Dial> dials;
  const PlannerKind planner = wish.choices.planner;
  if (planner != PlannerKind::kSlimpack)
    dials.push_back({{[](FitJob& job) { job.choices.planner = PlannerKind::kSlimpack; }}});
  dials.push_back(sharded_replicas(wish, limits));
  if (planner != PlannerKind::kPacked) dials.push_back(recomputation(wish, limits));
  dials.push_back(optimizer_on_host(wish, limits));
  if (planner == PlannerKind::kSlimpack && limits.merging) dials.push_back(merging(wish));
  dials.push_back(ranks(wish, &ParallelGrid::tp, true));
  dials.push_back(ranks(wish, &ParallelGrid::pp, true));
  dials.push_back(ranks(wish, &ParallelGrid::tp, false));
  dials.push_back(ranks(wish, &ParallelGrid::pp, false));
  dials.push_back(ranks(wish, &ParallelGrid::dp, false));
  return dials;
}

bool possible(const FitJob& wish, const FitJob& job, const FitLimits& limits) {
  const std::int32_t tp = job.grid.tp;
  return job.grid.pp * job.grid.stages_per_rank <= limits.layers && job.grid.dp <= kMostReplicas &&
         (tp == wish.grid.tp || (tp <= limits.most_tp && limits.heads % tp == 0));
}

std::vector<FitCandidate> by_ranks(std::vector<FitCandidate> candidates) {
  std::ranges::stable_sort(candidates, {},
                           [](const FitCandidate& c) { return c.job.grid.ranks(); });
  return candidates;
}

/// Ranks that are added are not traded for others at once.
bool go_together(const Dial& a, const Dial& b) {
  return !(a.trades_ranks && (b.adds_ranks || b.trades_ranks));
}

std::string recompute_setting(const FitJob& job) {
  return fmt::format("plan.recompute={}", job.choices.mixed_recompute
                                              ? "auto"
                                              : to_string(job.choices.recompute.front()));
}

}  // namespace

std::vector<FitCandidate> single_changes(const FitJob& wish, const FitLimits& limits) {
  std::vector<FitCandidate> candidates;
  const std::vector<Dial> dials = dials_of(wish, limits);
  for (std::size_t d = 0; d < dials.size(); ++d)
    for (const auto& edit : dials[d].edits) {
      FitCandidate candidate{wish, d};
      edit(candidate.job);
      if (possible(wish, candidate.job, limits)) candidates.push_back(std::move(candidate));
    }
  return by_ranks(std::move(candidates));
}

std::vector<FitCandidate> double_changes(const FitJob& wish, const FitLimits& limits) {
  std::vector<FitCandidate> candidates;
  const std::vector<Dial> dials = dials_of(wish, limits);
  for (std::size_t a = 0; a < dials.size(); ++a)
    for (std::size_t b = a + 1; b < dials.size(); ++b) {
      if (!go_together(dials[a], dials[b])) continue;
      for (const auto& first : dials[a].edits)
        for (const auto& second : dials[b].edits) {
          FitCandidate candidate{wish, a * dials.size() + b};
          first(candidate.job);
          second(candidate.job);
          if (possible(wish, candidate.job, limits)) candidates.push_back(std::move(candidate));
        }
    }
  return by_ranks(std::move(candidates));
}

std::vector<std::string> changed_settings(const FitJob& wish, const FitJob& job) {
  std::vector<std::string> settings;
  const auto number = [&](const char* key, std::int32_t ParallelGrid::*member) {
    if (job.grid.*member != wish.grid.*member)
      settings.push_back(fmt::format("{}={}", key, job.grid.*member));
  };
  if (job.memory_cap != wish.memory_cap && job.memory_cap)
    settings.push_back(fmt::format("plan.memory_cap={}", job.memory_cap->count()));
  if (job.choices.planner != wish.choices.planner)
    settings.push_back(fmt::format("plan.planner={}", to_string(job.choices.planner)));
  if (job.choices.mixed_recompute != wish.choices.mixed_recompute)
    settings.push_back(recompute_setting(job));
  if (job.choices.most_merged != wish.choices.most_merged)
    settings.push_back(fmt::format("plan.most_merged={}", job.choices.most_merged));
  if (job.grid.shard_replicas && !wish.grid.shard_replicas)
    settings.push_back("parallel.shard_replicas=true");
  number("parallel.zero", &ParallelGrid::zero);
  if (job.grid.offload_optimizer != wish.grid.offload_optimizer)
    settings.push_back("parallel.offload_optimizer=true");
  number("parallel.tp", &ParallelGrid::tp);
  number("parallel.pp", &ParallelGrid::pp);
  number("parallel.dp", &ParallelGrid::dp);
  return settings;
}

}  // namespace slimpack
