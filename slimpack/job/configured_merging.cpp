#include "slimpack/job/configured_merging.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "slimpack/job/configured_job.h"
#include "slimpack/planner/activation_budget.h"
#include "slimpack/planner/paying_merge.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/require_sensible.h"

namespace slimpack {
namespace {

/// A document takes more memory than it keeps between its passes: while it runs, and for others
/// beside it.
constexpr std::int64_t kSpare = 2;

/// Whether groups have room for what a document of the context keeps.
class Room {
 public:
  Room(const RunConfig& config, const Costs& cost, const std::vector<Recompute>& recomputations)
      : config_(config),
        cost_(cost),
        recomputations_(recomputations),
        job_{.layout =
                 balanced_layout(cost, document_, config.parallel.pp,
                                 config.parallel.stages_per_rank, config.parallel.spread_vocabulary,
                                 LastStage::kBothPasses, config.parallel.placement),
             .replicas = config.parallel.dp} {}

  /// So many times as much as it keeps.
  [[nodiscard]] bool on(std::int32_t group, std::int64_t times) const {
    std::optional<Bytes> cap = config_.plan.memory_cap;
    if (!cap && !config_.plan.unlimited_memory) {
      const auto budget = activation_budget(cost_, job_.layout, job_.replicas, group);
      if (budget) cap = budget->available();
    }
    if (cap) cap = *cap / times;
    if (cap && *cap < Bytes(1)) return false;
    return std::ranges::any_of(recomputations_, [&](Recompute everywhere) {
      return !never_fits(cap, document_, group, stage_table(cost_, job_, everywhere));
    });
  }

 private:
  const RunConfig& config_;
  const Costs& cost_;
  const std::vector<Recompute>& recomputations_;
  SequenceLengths document_{config_.data.context};
  Job job_;
};

}  // namespace

std::int32_t configured_merging(const RunConfig& config, const Costs& cost) {
  const std::int32_t dp = config.parallel.dp;
  if (config.plan.most_merged) return allowed_merging(*config.plan.most_merged, dp, cost);
  const std::int32_t most = allowed_merging(dp, dp, cost);
  const std::int32_t usual = std::min(most, kUsualMerging);
  if (most == usual) return usual;
  const std::vector<Recompute> recomputations = allowed_recomputations(config, cost);
  const std::int32_t paying = std::max(
      usual, paying_merge(cost, recomputations, {config.data.context, config.parallel.pp}, most));
  const Room room(config, cost, recomputations);
  for (std::int32_t group = paying; group <= most; group *= 2)
    if (room.on(group, kSpare)) return group;
  for (std::int32_t group = most; group > usual; group /= 2)
    if (room.on(group, 1)) return group;
  return usual;
}

}  // namespace slimpack
